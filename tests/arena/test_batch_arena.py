"""Batches of battles between any policies: results do not depend on the batch (R15, R16)."""

import dataclasses
import functools
from typing import ClassVar

import pytest
import torch
from host_reads import HostReads
from leagues import BRIEF, TINY, policy_of
from torch._dynamo.utils import counters

from echelon.agents.heuristic import Heuristic
from echelon.agents.runner import TeamObservation, TeamSeat
from echelon.agents.seating import fits_device
from echelon.agents.stacked import SLOTS, StackedForward, StackedPolicies, blocks_of
from echelon.arena import batch_arena, until_done
from echelon.arena.batch_arena import BatchArena, Battle, slot_index
from echelon.arena.config import ArenaConfig
from echelon.arena.fingerprint import leaves, state_hash
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import STREAMS
from echelon.league.matchmaking import period_seeds, round_robin
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs
from echelon.replay.recorder import Recorder
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError

CPU = torch.device("cpu")
WIDER = dataclasses.replace(TINY, hidden=24)
KL_BOUND = 0.01
"""Nats an action column: what half precision may change of a distribution."""


def stacked(policies, slots, compute=torch.float32, compiled=False) -> StackedPolicies:
    return StackedPolicies(StackedForward(policies[0], CPU, compute, compiled), policies, slots, 5)


def test_blocks_are_full_in_a_large_tournament():
    ids = [str(number) * 64 for number in range(10)]
    battles = round_robin(ids, period_seeds(1, 3))
    blocks, needed = 0, 0
    for who in ids:
        own = [(b, side) for b, battle in enumerate(battles) for side in (0, 1) if battle[side] == who]
        blocks += len(blocks_of([TeamSeat(b, slot_index(battles[b], side)) for b, side in own]))
        needed += -(-len(own) // SLOTS)
    assert needed == 70 and blocks <= 2 * needed


@pytest.mark.requirement("R15")
def test_a_slot_keeps_its_place_in_its_block():
    slots = [TeamSeat(0, 3), TeamSeat(1, 3), TeamSeat(2, 0)]
    blocks = blocks_of(slots)
    assert [len(block) for block in blocks] == [SLOTS, SLOTS]
    assert (blocks[0][3], blocks[1][3], blocks[0][0]) == tuple(slots)
    assert sum(seat is not None for block in blocks for seat in block) == 3


def seen_by(battles: int, seed: int) -> TeamObservation:
    """Return the observation of the teams in a real battle, with noise."""
    env = EchelonEnv(BRIEF, battles, device="cpu", seed=seed)
    now = env.rollout(3)[:, -1]
    streams = {name: now["blue", "observation", name] for name in STREAMS}
    mask = torch.ones(battles, 5, dtype=torch.bool)
    return TeamObservation(streams, mask, now["telemetry"], torch.randn(battles, 5, 26))


@pytest.mark.requirement("R15")
def test_each_slot_is_decided_by_its_own_policy():
    policies = [policy_of(seed) for seed in range(3)]
    slots = [[TeamSeat(0, 0), TeamSeat(3, 5)], [TeamSeat(1, 2)], [TeamSeat(2, 2), TeamSeat(4, 2), TeamSeat(5, 7)]]
    seen = seen_by(6, 0)
    stack = stacked(policies, slots)
    with torch.inference_mode():
        loc, scale = stack.distribution(seen)
        for policy, own in zip(policies, slots, strict=True):
            rows = [slot.row for slot in own]
            streams = tuple(seen.streams[name][rows] for name in STREAMS)
            nothing = torch.zeros(len(rows), 5, TINY.hidden)
            assert not policy.training
            expected = policy.network(streams, seen.telemetry[rows], {"h": nothing, "c": nothing})
            places = [stack.rows.tolist().index(row) for row in rows]
            torch.testing.assert_close(loc[places], expected.loc, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(scale[places], expected.scale, atol=1e-5, rtol=1e-4)


@pytest.mark.requirement("R19")
@pytest.mark.parametrize("compute", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near_full_precision(compute):
    torch.manual_seed(0)
    policy, slots, seen = policy_of(0), [[TeamSeat(b, b) for b in range(8)]], seen_by(8, 1)
    policy.network.head.loc.weight.data.mul_(0.1)
    full, half = stacked([policy], slots), stacked([policy], slots, compute)
    with torch.inference_mode():
        for _ in range(4):
            (p_loc, p_scale), (q_loc, q_scale) = full.distribution(seen), half.distribution(seen)
    p, q = torch.distributions.Normal(p_loc, p_scale), torch.distributions.Normal(q_loc, q_scale)
    kl = torch.distributions.kl_divergence(p, q)
    assert 0 < kl.mean() < KL_BOUND


@pytest.mark.requirement("R19")
@pytest.mark.long
def test_compiled_networks_stay_near_eager_ones():
    policies, slots, seen = [policy_of(n) for n in range(2)], [[TeamSeat(0, 0)], [TeamSeat(1, 3)]], seen_by(2, 1)
    eager, compiled = stacked(policies, slots), stacked(policies, slots, compiled=True)
    with torch.inference_mode():
        for _ in range(3):
            (p_loc, p_scale), (q_loc, q_scale) = eager.distribution(seen), compiled.distribution(seen)
    p, q = torch.distributions.Normal(p_loc, p_scale), torch.distributions.Normal(q_loc, q_scale)
    assert torch.distributions.kl_divergence(p, q).max() < 1e-4


SHORT = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=2.0))
POLICIES = {"one": policy_of(1), "two": policy_of(2), "wide": policy_of(3, WIDER), "script": Heuristic(SHORT, "expert")}


@pytest.mark.requirement("R15")
def test_a_battle_is_the_same_in_every_batch():
    battles = round_robin(list(POLICIES), [1, 2])
    arena = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU))
    together = arena.play(battles).results
    assert len({result.state_hash for result in together}) == len(battles) == 24
    for number in (0, 13):
        assert arena.play([battles[number]]).results == [together[number]]
    parted = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=13)).play_all(battles)
    assert [result for batch in parted for result in batch.results] == together


def test_padding_and_chunks_do_not_change_results(monkeypatch):
    """The arena pads and chunks as a compiled one, but runs uncompiled."""
    battles = round_robin(list(POLICIES), [1, 2])
    expected = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU)).play(battles).results
    arena = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=20))
    monkeypatch.setattr(StackedForward, "chunk", property(lambda _: 2, lambda *_: None), raising=False)
    monkeypatch.setattr(arena, "env_of", lambda count, recorder: EchelonEnv(SHORT, 20, CPU, seed=0, maps=arena.maps))
    assert [result for batch in arena.play_all(battles) for result in batch.results] == expected


def test_unstacked_policy_receives_the_full_observation():
    """A module that is not stacked reads the map, the mask and its own memory."""
    seen = []

    class Watcher(Heuristic):
        def forward(self, team):
            seen.append((team["telemetry"].shape, team["mask"].dtype, team["memory", "stuck_s"].shape))
            return super().forward(team)

    arena = BatchArena(SHORT, {"watcher": Watcher(SHORT), "one": POLICIES["one"]}.__getitem__, ArenaConfig(CPU))
    arena.play([Battle("watcher", "one", 1), Battle("one", "watcher", 1), Battle("watcher", "one", 2)])
    assert set(seen) == {((3, 5, 16, 16), torch.bool, (3, 5, 1))}


def test_state_hash_covers_every_bit():
    env = EchelonEnv(BRIEF, 3, "cpu", seed=5)
    env.rollout(2)
    whole = state_hash(env.state)
    assert len(set(whole.tolist())) == 3
    assert torch.equal(state_hash(env.state[1:]), whole[1:]), "each battle's own"
    for name in leaves(env.state):
        changed = env.state.clone()
        leaf = functools.reduce(getattr, name.split("/"), changed)
        last = (1, *[-1] * (leaf.dim() - 1))
        leaf[last] = ~leaf[last] if leaf.dtype == torch.bool else leaf[last] + 1
        assert (state_hash(changed) != whole).tolist() == [False, True, False], name


class Watcher(Heuristic):
    """Records the modes in which it is called."""

    modes: ClassVar[set[tuple[bool, bool]]] = set()

    def forward(self, team):
        self.modes.add((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        return super().forward(team)


@pytest.mark.requirement("R11")
def test_matches_are_played_in_inference_mode():
    BatchArena(SHORT, {"a": Watcher(SHORT, "easy"), "b": policy_of(0)}.__getitem__, ArenaConfig(CPU)).play(
        [Battle("a", "b", 0)]
    )
    assert Watcher.modes == {(True, False)}


@pytest.mark.requirement("R13")
def test_a_policy_on_another_gpu_is_on_another_device():
    first, second, cpu = (torch.device(name) for name in ("cuda:0", "cuda:1", "cpu"))
    assert fits_device(first, first, is_copied=False) and not fits_device(second, first, is_copied=False)
    assert not fits_device(cpu, first, is_copied=False)
    assert fits_device(second, first, is_copied=True) and fits_device(cpu, first, is_copied=True)


@pytest.mark.requirement("R13")
def test_invalid_policy_is_rejected_by_name():
    def fight(policy):
        return BatchArena(SHORT, lambda _: policy, ArenaConfig(CPU)).play([Battle("a", "b", 0)])

    with pytest.raises(ConfigError, match="a: comm_dim must be 4 for this battle, got 8"):
        other = dataclasses.replace(BRIEF, comm_dim=4)
        BatchArena(other, lambda _: POLICIES["one"], ArenaConfig(CPU)).play([Battle("a", "b", 0)])
    with pytest.raises(ConfigError, match="a: must be in evaluation mode"):
        fight(policy_of(0).train())
    with pytest.raises(ConfigError, match="a: device must be cpu, the device on which the battles run, got 'meta'"):
        fight(policy_of(0).to("meta"))
    with pytest.raises(ConfigError, match=r"battles of a batch must be 1\.\.2, got 3"):
        BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=2)).play(
            [Battle("one", "two", n) for n in range(3)]
        )
    with pytest.raises(ConfigError, match=r"batch must be 1\.\.16777216 battles, got 0"):
        BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=0))


@pytest.mark.long
def test_fifty_compiled_policies_need_one_graph_for_each_architecture(monkeypatch):
    """The number of graphs does not depend on batch sizes: a ninth shape once ended a run."""
    monkeypatch.setattr("echelon.env.engine.fused", lambda function, _: function)
    env = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=0.5))
    policies = {f"{n}": policy_of(n, TINY if n % 3 else WIDER) for n in range(50)}
    arena = BatchArena(env, policies.__getitem__, ArenaConfig(CPU, batch=40, compiled=True))
    pairs = round_robin(list(policies), [1])
    torch._dynamo.reset()
    counters.clear()
    sizes = [1, 2, 3, 5, 8, 13, 21, 34, 40, 40, 17]
    at = 0
    for size in sizes:
        assert len(arena.play(pairs[at : at + size]).results) == size
        at += size
        assert arena._env.num_envs >= size
    assert counters["stats"]["unique_graphs"] == 2 and arena._env.num_envs == 40


def test_only_battles_of_the_first_batch_are_recorded():
    arena = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU, batch=2))
    recorder = Recorder([1, 2, 3])
    list(arena.play_all([Battle("one", "two", seed) for seed in range(4)], recorder))
    assert recorder.battles == [1] and len(recorder.finish(["one"], ["two"]).battles) == 1
    with pytest.raises(ConfigError, match="battles to record must be below 2, the batch size, got 'none'"):
        arena.play([Battle("one", "two", 0), Battle("two", "one", 0)], Recorder([2]))


def test_subclass_is_not_stacked_and_policies_stay_unchanged():
    class Mute(ActorCritic):
        def forward(self, team):
            called.append(team.shape)
            return team.set("action", torch.zeros(*team.shape, 26))

    called = []
    parts = TINY.build(PolicySpecs(SHORT.comm_dim)).network
    mute = Mute(TINY, PolicySpecs(SHORT.comm_dim), parts.encoder, parts.memory).eval()
    arena = BatchArena(SHORT, lambda name: mute if name == "mute" else policy_of(1), ArenaConfig(CPU))
    first, again = (arena.play([Battle("mute", "one", 3)]).results for _ in range(2))
    assert set(called) == {torch.Size((1, 5))} and first == again
    made = []
    BatchArena(SHORT, lambda _: made.append(policy_of(1)) or made[-1], ArenaConfig(CPU)).play([Battle("a", "b", 0)])
    assert not any(leaf.is_inference() for policy in made for leaf in policy.parameters())


@pytest.mark.requirement("R14")
def test_match_copies_to_the_host_every_16_decisions(monkeypatch):
    """The battles run in the form of a GPU; on a CPU, hashes and restarts select the ended battles."""
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    monkeypatch.setattr(batch_arena, "loops_on", lambda device: False)
    env = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=0.8, decision_repeat=1))
    policies = {"a": policy_of(0), "b": policy_of(1), "c": Heuristic(env, "easy")}
    arena = BatchArena(env, policies.__getitem__, ArenaConfig(CPU, 6))
    battles = [Battle(x, y, seed) for x, y in ("ab", "bc", "ca") for seed in (1, 2)]
    arena.play(battles)
    monkeypatch.setattr(until_done, "state_hashes", lambda state, which: torch.zeros(len(which), 1, dtype=torch.int64))
    reads, decisions = HostReads(), []
    decide = batch_arena.MatchBatch._decide

    def counted(self, now, decision):
        decisions.append(decision)
        decide(self, now, decision)

    monkeypatch.setattr(batch_arena.MatchBatch, "_decide", counted)
    play = batch_arena.run_until_done

    def watched(*args, **kwargs):
        with reads:
            return play(*args, **kwargs)

    monkeypatch.setattr(batch_arena, "run_until_done", watched)
    arena.play(battles)
    assert len(decisions) >= 16 and reads.reads.total() == len(decisions) // until_done.DONE_CHECK_EVERY


@pytest.mark.parametrize("battles", [1, 5])
def test_progress_adds_up_to_the_battles(battles):
    env = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=1.6, decision_repeat=1))
    arena, told = BatchArena(env, lambda name: Heuristic(env, name), ArenaConfig(CPU, 4)), []
    arena.on_progress = told.append
    list(arena.play_all([Battle("easy", "easy", seed) for seed in range(battles)]))
    assert sum(told) == pytest.approx(battles) and min(told) >= 0
    assert len(told) >= 2 * -(-battles // 4), "within a batch too"


def test_narrowed_batch_continues_bit_identically(monkeypatch):
    battles, stepped, begin = round_robin(list(POLICIES), [1, 2]), [], batch_arena.MatchBatch.reset_battles

    def begun_at_times(batch):
        now = begin(batch)
        ticks = torch.arange(len(battles)) % 7 * SHORT.rules.decision_repeat
        batch.env.state = batch.env.state.replace(tick=ticks)
        return now

    monkeypatch.setattr(batch_arena.MatchBatch, "reset_battles", begun_at_times)
    with monkeypatch.context() as context:
        context.setattr(batch_arena, "can_narrow", lambda batch: False)
        expected = BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU)).play(battles).results
    monkeypatch.setattr(until_done, "DONE_CHECK_EVERY", 1)
    play = EchelonEnv.play

    def counted(self, decided):
        stepped.append(self.num_envs)
        return play(self, decided)

    monkeypatch.setattr(EchelonEnv, "play", counted)
    assert BatchArena(SHORT, POLICIES.__getitem__, ArenaConfig(CPU)).play(battles).results == expected
    assert {result.decisions for result in expected} == {8}, "the clock ends them"
    assert len({*stepped}) >= 3 and sorted(stepped, reverse=True) == stepped
