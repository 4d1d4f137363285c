"""`python -m echelon` and the script `echelon`; what the commands do stands in `echelon.pipelines.commands`."""

import sys

SUMMARIES = {
    "demo": "two battles of a trained policy, and the page that shows them",
    "describe": "what every column of actions, observations, rewards and outcomes means",
    "checkpoint": "metadata of a checkpoint, and whether its files are valid",
    "tasks": "every named task with its rules and its fingerprint",
    "fingerprint": "a hash that is the same on every machine",
    "plot": "draws training runs over each other",
    "report": "a page about several training runs: bands over seeds, what differs, where each comes from",
    "export": "writes a trained policy as one ONNX file, a decision of single mechs",
    "verify": "whether a result of protocol 2 tells the truth, by fighting a sample of its battles again",
    "mcp": "serves battles over MCP, to be commanded by a language model",
    "doctor": "what this machine offers: device, versions, what compiles, what fell back and why",
}
"""One line for each command."""
HELP = "\n".join(
    (
        "Tools for files, runs and this machine. `echelon COMMAND --help` tells the options of a command.",
        "`echelon-train` trains, `echelon-arena` plays matches and leagues.",
        "",
        *(f"  {name:<12} {summary}" for name, summary in SUMMARIES.items()),
    )
)


def program() -> None:
    """The console script `echelon`. Help is printed at once: what runs a command takes seconds to import."""
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(f"usage: echelon COMMAND [OPTIONS]\n\n{HELP}")
        return
    from echelon.pipelines.commands import main
    from echelon.runtime.terminal import run

    run(lambda: main(HELP))


if __name__ == "__main__":
    program()
