"""A language model commands a team: it reads each report in words and replies with orders.

Replace `language_model` by a call of your model.
"""

import dataclasses
import json
import re
from collections.abc import Callable

import echelon
from echelon import CommandConfig, CommandPort, EnvConfig

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=2, command=CommandConfig(enabled=True))
PROMPT = """You command a team of mechs that fights for a zone. Read the report and answer with one JSON object:
{"orders": [{"pack": 0, "kind": "hold"}]}. Kinds: free, hold, regroup; move, defend, screen with "place": [x, y];
attack with "place" or with "target": the name of an enemy that you know of. Optional: "fire": free, return or hold.
Answer with JSON only.

"""


def language_model(prompt: str) -> str:
    """A stand-in: holds at first, then attacks the first enemy that the report names."""
    seconds = float(re.search(r"([\d.]+) s have passed", prompt).group(1))
    known = re.search(r"Enemies you know of: (\w+)", prompt)
    if seconds < 4 or known is None:
        return 'They are near. {"orders": [{"pack": 0, "kind": "hold", "fire": "return"}]}'
    return json.dumps({"orders": [{"pack": 0, "kind": "attack", "target": known.group(1)}]})


def main(model: Callable[[str], str] = language_model, reports: int = 4) -> list[list[str]]:
    """Play until the last of some reports is answered, and return the refused orders of each reply."""
    port = CommandPort(echelon.commanders(CONFIG, num_envs=1, device="cpu", seed=2))
    errors: list[list[str]] = [[]]
    for _ in range(reports):
        (report,) = port.reports()
        refused = "".join(f"Refused in your last answer: {line}\n" for line in errors[-1])
        errors.append(port.reply(model(PROMPT + refused + port.words(report))))
        port.step()
    return errors[1:]


if __name__ == "__main__":
    print(main())
