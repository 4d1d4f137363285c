"""Play battles between commanders, draw replays, and run leagues.

python pipelines/arena.py play --blue X --red Y --battles N --seed S --replay battles.echelon
python pipelines/arena.py watch battles.echelon

`--help` lists all commands.
"""

from collections.abc import Callable
from typing import Any

from echelon.pipelines.command import Command
from echelon.pipelines.commanders import Commanders
from echelon.pipelines.dataset import WriteDataset
from echelon.pipelines.edit import Edit
from echelon.pipelines.evaluate import Evaluate
from echelon.pipelines.evolve import Evolve
from echelon.pipelines.exploit import Exploit
from echelon.pipelines.export import Trained
from echelon.pipelines.export_replay import ExportReplay
from echelon.pipelines.fork import ForkCommand
from echelon.pipelines.import_map import ImportMap
from echelon.pipelines.leaderboard import Leaderboard
from echelon.pipelines.league import Add, Init, List, Retire
from echelon.pipelines.league_records import Export, History, Import, Opponents
from echelon.pipelines.league_results import Payoff, Ratings, Standings
from echelon.pipelines.maps import DrawMaps
from echelon.pipelines.play import Play
from echelon.pipelines.skills import Pieces, StyleCommand
from echelon.pipelines.tournament import Tournament
from echelon.pipelines.watch import Watch
from echelon.pipelines.whatif import WhatIfCommand
from echelon.runtime.command_line import ALLOW_MODULE, arguments, parse_command
from echelon.runtime.terminal import run

COMMANDS: dict[str, Callable[..., Any]] = {
    "play": Play,
    "watch": Watch,
    "export-replay": ExportReplay,
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
    "commanders": Commanders,
    "edit": Edit,
    "import-map": ImportMap,
    "init": Init,
    "add": Add,
    "tournament": Tournament,
    "evolve": Evolve,
    "retire": Retire,
    "list": List,
    "standings": Standings,
    "payoff": Payoff,
    "ratings": Ratings,
    "history": History,
    "export": Export,
    "import": Import,
    "opponents": Opponents,
}
"""Command classes, in the order of the help."""


def main() -> None:
    parse_command(COMMANDS, arguments(), ALLOW_MODULE).run()


def program() -> None:
    run(main)


if __name__ == "__main__":
    program()
