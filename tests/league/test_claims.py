"""Claims of battles: each is played by one process, and released when the process dies."""

import programs
import pytest
import torch
from leagues import fought, fresh

from echelon.arena.config import ArenaConfig
from echelon.league.league_arena import CLAIMS_FOLDER, LeagueArena, claimed, claiming, owners
from echelon.league.matchmaking import round_robin
from echelon.league.store import Store


@pytest.fixture
def battles(tmp_path):
    store = fresh(tmp_path)
    return round_robin([entry.id for entry in store.entries()], [1])[:6]


def test_claimed_battles_are_not_claimed_twice(tmp_path, battles):
    one, other = Store(tmp_path / "league"), Store(tmp_path / "league")
    with claiming(one) as mine, claiming(other) as theirs:
        assert mine.claim(battles, 2) == (battles[:2], True)
        assert theirs.claim(battles, 3) == (battles[2:5], True)
        one.record([fought(*battles[0])])
        assert claimed(one) == set(battles[1:5]), "what is fought is claimed no more"
        assert mine.claim(battles, 9) == (battles[5:], True), "others fight the rest"
    assert claimed(one) == set() and not list((tmp_path / "league" / CLAIMS_FOLDER).iterdir())


def test_claims_of_dead_processes_are_released(tmp_path, battles):
    program = f"""
import os, signal
from echelon.league.league_arena import claiming
from echelon.arena.batch_arena import Battle
from echelon.league.store import Store
with claiming(Store({str(tmp_path / "league")!r})) as claims:
    claims.claim([Battle(*row) for row in {[tuple(battle) for battle in battles]!r}], 4)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    programs.run("-c", program)
    store = Store(tmp_path / "league")
    assert claimed(store) == set(battles[:4])
    with claiming(store) as claims:
        assert claims.claim(battles, 9) == (battles, False) and len(owners(store)) == 1


def test_failed_batch_is_released(tmp_path, battles, monkeypatch):
    store = Store(tmp_path / "league")
    monkeypatch.setattr("echelon.arena.batch_arena.MatchBatch.play", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(LeagueArena(store, ArenaConfig(torch.device("cpu"), batch=2)).play(battles))
    assert claimed(store) == set()
