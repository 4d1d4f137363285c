"""Fixtures for tests of the programs."""

import sys

import pytest

from echelon.pipelines import arena


@pytest.fixture
def ask(monkeypatch, capsys):
    """Run commands of `arena.py` in this process, which has already imported torch; return the printed text."""

    def answer(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["arena.py", *arguments])
        capsys.readouterr()
        arena.main()
        return capsys.readouterr().out

    return answer
