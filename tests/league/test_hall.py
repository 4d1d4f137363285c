"""Battles between many commanders in one batch: the same as one at a time, and written down (R13, R15, R16, R30)."""

import dataclasses
import json

import pytest
import torch
from leagues import BRIEF, TINY, checkpoint_of, fresh, policy_of

from echelon.config import ConfigError
from echelon.env.env import EchelonEnv
from echelon.env.layout import STREAMS
from echelon.league.hall import Hall, Table, place_of
from echelon.league.schedule import MOST_SEEDS, Battle, batches, one_against, round_robin, seeds_of
from echelon.league.seating import SEATS, Seat, Seen, Stack, blocks_of

CPU = torch.device("cpu")
WIDER = dataclasses.replace(TINY, hidden=24)


def league(tmp_path):
    """Two networks of one architecture, one of another, and two scripted tiers."""
    store = fresh(tmp_path)
    for seed, model in ((1, TINY), (2, TINY), (3, WIDER)):
        store.add(checkpoint_of(tmp_path, seed, model))
    ids = [entry.id for entry in store.entries("candidate")]
    return store, [*ids, store.find("heuristic:trivial").id, store.find("heuristic:expert").id]


def test_every_pair_plays_every_seed_on_both_sides():
    battles = round_robin(["a", "b", "c"], [5, 6])
    assert len(battles) == len(set(battles)) == 3 * 2 * 2
    assert all(Battle(battle.red, battle.blue, battle.seed) in battles for battle in battles)
    assert {frozenset(battle[:2]) for battle in battles[:6]} == {frozenset(pair) for pair in ("ab", "ac", "bc")}
    assert one_against("a", ["a", "b"], [1]) == [Battle("a", "b", 1), Battle("b", "a", 1)]
    assert [len(some) for some in batches(battles, 5)] == [5, 5, 2]
    assert seeds_of(1, 3) == range(MOST_SEEDS, MOST_SEEDS + 3) and not set(seeds_of(1, 9)) & set(seeds_of(2, 9))


def test_blocks_are_filled_in_a_tournament_of_many():
    ids = [str(number) * 64 for number in range(10)]
    battles = round_robin(ids, seeds_of(1, 3))
    blocks, needed = 0, 0
    for who in ids:
        own = [(b, side) for b, battle in enumerate(battles) for side in (0, 1) if battle[side] == who]
        blocks += len(blocks_of([Seat(b, place_of(battles[b], side)) for b, side in own]))
        needed += -(-len(own) // SEATS)
    assert needed == 40 and blocks <= 2 * needed


def test_a_seat_keeps_its_place_in_its_block():
    seats = [Seat(0, 3), Seat(1, 3), Seat(2, 0)]
    blocks = blocks_of(seats)
    assert [len(block) for block in blocks] == [SEATS, SEATS]
    assert (blocks[0][3], blocks[1][3], blocks[0][0]) == (0, 1, 2)
    assert sum(row >= 0 for block in blocks for row in block) == 3


def test_battles_alone_are_the_same_battles_in_a_batch(tmp_path):
    """Bit for bit: winner, score, and every statistic, for networks and for scripted commanders."""
    store, ids = league(tmp_path)
    hall = Hall(store, CPU)
    battles = round_robin(ids, [7, 8])
    together = {match.key: match for fought in hall.fight(battles) for match in fought.matches}
    assert len(together) == len(battles) == len(store.matches()) == 40 and hall.missing(battles) == []
    scripts = {entry.id: entry.name for entry in store.entries("scripted")}
    chosen = [battles[0], battles[7], battles[22], battles[31], battles[39]]
    for battle in chosen:
        outcome = Table(hall, [battle], scripts).play()
        alone = hall._matches([battle], outcome, 0.0)[0]
        assert alone == together[alone.key]._replace(duration_s=0.0)
    shots = [json.loads(match.stats)["blue"]["shots_autocannon"] for match in together.values()]
    assert len(set(shots)) > 5, "these battles differ"


def test_a_league_that_was_fought_is_not_fought_again(tmp_path):
    store, ids = league(tmp_path)
    hall = Hall(store, CPU, batch=4)
    battles = round_robin(ids[2:4], [1, 2, 3])
    first = next(iter(hall.fight(battles)))
    assert len(first.matches) == 4 == len(store.matches())
    rest = hall.missing(battles)
    assert rest == battles[4:]
    again = next(iter(hall.fight(battles, kept=False))).matches
    assert [match._replace(duration_s=0) for match in again] == [m._replace(duration_s=0) for m in first.matches]
    assert [len(fought.matches) for fought in hall.fight(battles)] == [2] and len(store.matches()) == 6


def seen_by(battles: int, seed: int) -> Seen:
    """What teams of a real battle see, and their chance."""
    env = EchelonEnv(BRIEF, battles, device="cpu", seed=seed)
    now = env.rollout(3)[:, -1]
    streams = {name: now["blue", "observation", name] for name in STREAMS}
    return Seen(streams, now["telemetry"], torch.randn(battles, 5, 26))


def test_each_seat_is_decided_by_its_own_policy():
    policies = [policy_of(seed) for seed in range(3)]
    seats = [[Seat(0, 0), Seat(3, 5)], [Seat(1, 2)], [Seat(2, 2), Seat(4, 2), Seat(5, 9)]]
    seen = seen_by(6, 0)
    stack = Stack(policies, seats, 5, CPU)
    with torch.inference_mode():
        loc, _ = stack.law(seen)
        for policy, own in zip(policies, seats, strict=True):
            rows = [seat.row for seat in own]
            streams = tuple(seen.streams[name][rows] for name in STREAMS)
            nothing = torch.zeros(len(rows), 5, TINY.hidden)
            expected = policy.network(streams, seen.telemetry[rows], nothing, nothing)[0]
            places = [stack.rows.tolist().index(row) for row in rows]
            torch.testing.assert_close(loc[places], expected, atol=1e-5, rtol=1e-4)


KL_BOUND = 0.01
"""Nats an action column: what half precision may change of a law."""


@pytest.mark.parametrize("compute", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near_the_law_of_full(compute):
    torch.manual_seed(0)
    policy, seats, seen = policy_of(0), [[Seat(b, b) for b in range(8)]], seen_by(8, 1)
    policy.network.head.loc.weight.data.mul_(0.1)
    full, half = Stack([policy], seats, 5, CPU), Stack([policy], seats, 5, CPU, compute)
    with torch.inference_mode():
        for _ in range(4):
            (p_loc, p_scale), (q_loc, q_scale) = full.law(seen), half.law(seen)
    p, q = torch.distributions.Normal(p_loc, p_scale), torch.distributions.Normal(q_loc, q_scale)
    kl = torch.distributions.kl_divergence(p, q)
    assert 0 < kl.mean() < KL_BOUND


@pytest.mark.slow
def test_compiled_networks_stay_near_the_law_of_eager_ones():
    policies, seats, seen = [policy_of(n) for n in range(2)], [[Seat(0, 0)], [Seat(1, 3)]], seen_by(2, 1)
    eager, compiled = Stack(policies, seats, 5, CPU), Stack(policies, seats, 5, CPU, compiled=True)
    with torch.inference_mode():
        for _ in range(3):
            (p_loc, p_scale), (q_loc, q_scale) = eager.law(seen), compiled.law(seen)
    p, q = torch.distributions.Normal(p_loc, p_scale), torch.distributions.Normal(q_loc, q_scale)
    assert torch.distributions.kl_divergence(p, q).max() < 1e-4


def test_a_policy_of_another_message_length_is_refused(tmp_path):
    store, ids = league(tmp_path)
    hall = Hall(store, CPU)
    hall.config = dataclasses.replace(hall.config, comm_dim=4)
    scripts = {entry.id: entry.name for entry in store.entries("scripted")}
    with pytest.raises(ConfigError, match="comm_dim must be 4, got 8"):
        Table(hall, [Battle(ids[0], ids[1], 0)], scripts)


def test_a_pair_meets_on_a_seed_once_at_whatever_precision(tmp_path):
    store, ids = league(tmp_path)
    battles = round_robin(ids[3:], seeds_of(1, 1))
    assert [len(fought.matches) for fought in Hall(store, CPU).fight(battles)] == [2]
    assert Hall(store, CPU, precision="bf16").missing([*battles, battles[0]._replace(seed=7)]) == [
        battles[0]._replace(seed=7)
    ]
