"""`python -m echelon layout`: what an agent reads and writes, column by column."""

from __future__ import annotations

import json
from dataclasses import dataclass

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from echelon.config import EnvConfig
from echelon.env import layout


@dataclass(frozen=True)
class Layout:
    """Print the layout of actions and observations: every stream's shape and columns."""

    comm_dim: int = EnvConfig().comm_dim
    """Numbers in a message."""
    json: bool = False
    """Print JSON for machines, the same that checkpoints store."""

    def run(self) -> None:
        """Print it."""
        if self.json:
            described = {"layout": layout.describe(self.comm_dim), "sha256": layout.layout_hash(self.comm_dim)}
            print(json.dumps(described))
            return
        console = Console()
        for stream, features in layout.streams(self.comm_dim).items():
            console.print(Text(f"{stream}  {layout.SHAPES[stream]}"))
            table = Table("columns", "name", "range")
            for feature in features:
                where = layout.columns(features, feature.name)
                last = where.stop - 1
                columns = f"{last}" if feature.width == 1 else f"{where.start}..{last}"
                table.add_row(columns, feature.name, f"{feature.low:g} .. {feature.high:g}")
            console.print(table)


def main() -> None:
    """Parse and run."""
    command = tyro.extras.subcommand_cli_from_dict({"layout": Layout}, description=__doc__)
    command.run()


if __name__ == "__main__":
    main()
