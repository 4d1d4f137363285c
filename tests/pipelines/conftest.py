"""What tests of the programs share."""

import sys

import pytest

from echelon.pipelines import arena


@pytest.fixture
def ask(monkeypatch, capsys):
    """Runs commands of `arena.py` in this process, which has read torch already; returns what they printed."""

    def answer(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["arena.py", *arguments])
        capsys.readouterr()
        arena.main()
        return capsys.readouterr().out

    return answer
