"""Entry point of `python -m echelon` and of the script `echelon`; `echelon.pipelines.commands` defines the commands."""

import sys

SUMMARIES = {
    "demo": "play two battles of a trained policy and write a page that shows them",
    "describe": "list the meaning of every column of actions, observations, rewards and outcomes",
    "checkpoint": "show the metadata of a checkpoint and check its files",
    "tasks": "list the named tasks with their rules and fingerprints",
    "fingerprint": "print a hash that is the same on every machine",
    "plot": "plot several training runs in one picture",
    "report": "write a page that compares training runs: bands over seeds, settings, provenance",
    "export": "write a trained policy as one ONNX file that decides for single mechs",
    "verify": "check a result of protocol 2 by replaying a sample of its battles",
    "mcp": "serve battles over MCP, for a language model that commands",
    "doctor": "show what this machine supports: devices, versions, compilers, fallbacks and their causes",
}
"""One line for each command."""
HELP = "\n".join(
    (
        "Tools for files, runs and this machine. `echelon COMMAND --help` lists the options of a command.",
        "`echelon-train` trains policies; `echelon-arena` plays matches and leagues.",
        "",
        *(f"  {name:<12} {summary}" for name, summary in SUMMARIES.items()),
    )
)


def program() -> None:
    """Run the command line of `echelon`.

    If only help is requested, print it before importing the commands, because the import takes seconds.
    """
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(f"usage: echelon COMMAND [OPTIONS]\n\n{HELP}")
        return
    from echelon.pipelines.commands import main
    from echelon.runtime.terminal import run

    run(lambda: main(HELP))


if __name__ == "__main__":
    program()
