"""A file with the winners of branches (continued copies of a battle), from which a killed count can resume."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from echelon.env.outcome import Winner
from echelon.rules.versions import RULES_VERSION
from echelon.runtime.files import append_whole, read_file, write_whole

LETTERS = {Winner.DRAW: "=", Winner.BLUE: "b", Winner.RED: "r"}
WINNERS = {letter: winner for winner, letter in LETTERS.items()}


class BranchLog:
    """The winners of branches (continued copies of a battle), in the order of the branches.

    The first line of the file identifies the battles; each further line has one letter per branch of a batch.
    Unfinished lines, and entries of a call with another `identity`, are dropped.

    Args:
        path: the file; None to store the winners in memory only.
        identity: values whose `repr` identifies the battles.
    """

    def __init__(self, path: Path | None, identity: Sequence[object]) -> None:
        self.path, self.winners = path, list[Winner]()
        if path is None:
            return
        head = hashlib.sha256(repr((RULES_VERSION, *identity)).encode()).hexdigest()
        text = read_file(path).decode(errors="replace") if path.exists() else ""
        file_head, *lines = text[: text.rfind("\n") + 1].split("\n")
        letters = "".join(lines) if file_head == head else ""
        if all(letter in WINNERS for letter in letters):
            self.winners = [WINNERS[letter] for letter in letters]
        write_whole(path, f"{head}\n{letters if self.winners else ''}\n".encode())

    def add(self, winners: Sequence[Winner]) -> None:
        """Store the winners of a batch."""
        self.winners += winners
        if self.path is not None:
            append_whole(self.path, ("".join(LETTERS[winner] for winner in winners) + "\n").encode())
