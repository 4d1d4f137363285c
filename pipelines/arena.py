"""Plays battles between commanders, draws replays, and runs leagues.

python pipelines/arena.py play --blue X --red Y --battles N --seed S --replay battles.echelon
python pipelines/arena.py watch battles.echelon
python pipelines/arena.py whatif battles.echelon --battle 1 --at 12
python pipelines/arena.py fork battles.echelon --battle 1 --at 12 --red expert
python pipelines/arena.py maps --out maps.png
python pipelines/arena.py dataset --commanders X Y --battles N --out battles.safetensors
python pipelines/arena.py evaluate CHECKPOINT --task TASK | --league DIR
python pipelines/arena.py exploit X --agent-steps N
python pipelines/arena.py pieces X
python pipelines/arena.py command --blue stdio --red Y
python pipelines/arena.py leaderboard add RESULT.json
python pipelines/arena.py trained
python pipelines/arena.py style X --against Y
python pipelines/arena.py edit scenario.json
python pipelines/arena.py init|add|tournament|standings|… --league DIR
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echelon.pipelines.command import Command
from echelon.pipelines.console import ALLOW_MODULE, arguments, parse_command, run
from echelon.pipelines.edit_server import Edit
from echelon.pipelines.evaluate import Evaluate, Pieces
from echelon.pipelines.exploit import Exploit
from echelon.pipelines.export import Trained
from echelon.pipelines.league import COMMANDS as LEAGUE_COMMANDS
from echelon.pipelines.pictures import DrawMaps, Watch
from echelon.pipelines.play import Play, WriteDataset
from echelon.pipelines.policy_tables import Opponents, StyleCommand
from echelon.pipelines.strangers import Leaderboard
from echelon.pipelines.whatif import ForkCommand, WhatIfCommand

COMMANDS: dict[str, Callable[..., Any]] = {
    "play": Play,
    "watch": Watch,
    "whatif": WhatIfCommand,
    "fork": ForkCommand,
    "maps": DrawMaps,
    "dataset": WriteDataset,
    "evaluate": Evaluate,
    "exploit": Exploit,
    "pieces": Pieces,
    "leaderboard": Leaderboard,
    "trained": Trained,
    "style": StyleCommand,
    "command": Command,
    "edit": Edit,
    **LEAGUE_COMMANDS,
    "opponents": Opponents,
}
"""What each command does, in the order of the help."""


def main() -> None:
    parse_command(COMMANDS, arguments(), ALLOW_MODULE).run()


def program() -> None:
    run(main)


if __name__ == "__main__":
    program()
