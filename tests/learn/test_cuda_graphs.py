"""CUDA graphs of a decision and of a learning step equal the eager functions, tested on a CPU.

`test_gpu.py` captures on a GPU. Here `torch.cuda.graph` and its streams are mocks, and a graph is the tape of
`tests/graphs.py`.
"""

import dataclasses
import logging
from unittest.mock import Mock

import pytest
import torch
from graphs import CARD, Stream, dense_forms, faults, simulate
from tiny_runs import TINY, everything, short_battles, tiny_run

from echelon.learn.config import CurriculumConfig, PPOConfig
from echelon.learn.models.registry import model_with
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.trainer import Trainer
from echelon.rules.physics import RulesConfig
from echelon.runtime import cuda_graphs
from echelon.runtime.cuda_graphs import GraphedFunction
from echelon.runtime.fallback import PREFIX
from echelon.runtime.tensor_files import StateDict

CPU = torch.device("cpu")
SHORT = PPOConfig(rollout_decisions=6, chunk_decisions=3, epochs=2, minibatches=3)
# One substep per decision, five decisions per battle.
RULES = RulesConfig(max_episode_s=0.25, decision_repeat=1)
BATTLES = dataclasses.replace(short_battles(), map_pool=2, rules=RULES)
UNEQUAL = dataclasses.replace(BATTLES, blue=("scout", "light", "heavy"), red=("scout", "medium"))
RUNS = {
    "itself": {"opponent": "self"},
    "every opponent": {
        **{"self_share": 1 / 3, "snapshot_opponent_share": 1 / 3, "past_blocks": 2, "past_every": 1},
        "curriculum": CurriculumConfig(map_sampling="plr"),
    },
    "an expert": {"opponent": "heuristic:expert"},
    "reduced precision": {"precision": "bf16"},
    "gru": {"opponent": "self", "model": model_with("gru", TINY)},
    "mlp": {"opponent": "self", "model": model_with("mlp", TINY)},
    "unequal teams, central critic": {
        "opponent": "self",
        "env": UNEQUAL,
        "model": dataclasses.replace(TINY, critic="central"),
    },
    "time up is no end": {
        "env": dataclasses.replace(BATTLES, rules=dataclasses.replace(RULES, time_up_terminates=False))
    },
    "early stop": {"opponent": "self", "ppo": dataclasses.replace(SHORT, target_kl=1e-6)},
    "by class, in parts": {
        "opponent": "self",
        "ppo": dataclasses.replace(SHORT, advantages_by_class=True, value_clip=0.2, accumulate=2),
    },
}


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    """Return a function that makes a trainer with the GPU's code path."""
    dense_forms(monkeypatch)

    def make(name: str = "run", **changes) -> Trainer:
        settings = {
            "env": BATTLES,
            "num_envs": 12,
            "backend": "eager",
            "ppo": SHORT,
            "total_agent_steps": 10**6,
            **changes,
        }
        made = Trainer(tiny_run(**settings), tmp_path / name)
        made.env.restarts_by_row = False
        return made

    return make


def decide(made: Trainer):
    """Run the captured part of a started rollout."""
    made.collector._begin_rollout()
    return torch.inference_mode()(made.collector._decide)


USUAL = ("every opponent",)
"""The entry of `RUNS` that covers most of the others."""


def runs(*names: str) -> list:
    """Return parameters by name, marked `long` except for `USUAL`."""
    return [name if name in USUAL else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", runs(*RUNS))
def test_a_decision_and_a_step_can_be_captured(trainer, name):
    made = trainer(cuda_graphs="on", **RUNS[name])
    made.iterate()
    assert faults(decide(made)) == []
    made.ppo.at.zero_()
    assert faults(made.ppo._learn_next) == []


@pytest.mark.long
@pytest.mark.parametrize("tier", ["trivial", "easy", "normal", "hard", "expert"])
def test_two_commanders_can_be_captured(trainer, tier):
    """While battles against the previous commander last, both commanders decide."""
    before = "easy" if tier != "easy" else "hard"
    made = trainer(cuda_graphs="on", opponent="curriculum", curriculum=CurriculumConfig(opponents=(before, tier)))
    made.opponents.named.set_opponent(f"heuristic:{tier}", 0.5)
    made.collector.collect()
    assert made.opponents.named.old_is_read
    assert faults(decide(made)) == []


def test_only_declared_encoders_get_reduced_precision_views(trainer):
    made = trainer(cuda_graphs="on", opponent="self", precision="bf16")
    collector, seen = made.collector, []
    act = made.policy.act
    made.policy.act = lambda streams, *rest: (seen.append(streams[0].dtype), act(streams, *rest))[1]
    collector.collect()
    encoder = made.policy.network.encoder
    encoder.__class__ = type("Own", (type(encoder),), {})
    first = seen[:6]  # calls in the rollout, before final views are evaluated
    seen.clear()
    collector.collect()
    assert first == [torch.bfloat16] * 6 and seen[:6] == [torch.float32] * 6


@pytest.mark.long
def test_rebound_buffers_are_detected(trainer):
    """Each of these changes would leave the graph with unused memory, or with the last decision's number."""
    made = trainer(cuda_graphs="on", opponent="self")
    made.iterate()
    collector, ppo, decision = made.collector, made.ppo, decide(made)

    def sound() -> None:
        decision()
        collector.at.zero_()

    def rebinding_the_returns() -> None:
        sound()
        collector.earned = collector.earned.clone()

    def rebinding_the_state() -> None:
        sound()
        made.env.state = made.env.state.replace(tick=made.env.state.tick.clone())

    def counting_on_the_host() -> None:
        sound()
        collector.scale.mul_(1.0 + 1e-3 * next(numbers))

    def reading() -> None:
        sound()
        collector.at.item()

    def keeping() -> None:
        sound()
        kept.append(collector.at + 1)

    numbers, kept = iter(range(10)), []
    assert faults(sound) == []
    assert "aten::clone leaves memory behind" in faults(rebinding_the_returns)
    assert "operation" in faults(rebinding_the_state)[-1]
    assert "operation" in faults(counting_on_the_host)[-1]
    assert faults(reading) == ["aten::_local_scalar_dense waits for the device"]
    assert "aten::add leaves memory behind" in faults(keeping)

    def rebinding_the_count() -> None:
        ppo._learn_next()
        ppo.skipped = ppo.skipped + 0

    ppo.at.zero_()
    assert faults(ppo._learn_next) == []
    ppo.at.zero_()
    assert "aten::add leaves memory behind" in faults(rebinding_the_count)


def iterated(made: Trainer, times: int) -> tuple[list[dict], dict[str, torch.Tensor]]:
    """Return the metrics of some iterations, and all tensors afterwards."""
    rows = [made.iterate() for _ in range(times)]
    timed = ("seconds", "agent_steps_per_s", "env_s", "act_s", "learn_s")
    return [{k: v for k, v in row.items() if k not in timed} for row in rows], everything(made)


@pytest.mark.long
@pytest.mark.parametrize("name", ("every opponent", "reduced precision", "unequal teams, central critic", "early stop"))
def test_captured_training_equals_eager_training(trainer, monkeypatch, name):
    changes = RUNS[name]
    rows, tensors = iterated(trainer("called", **changes), 3)
    in_place = iterated(trainer("in place", cuda_graphs="on", **changes), 3)
    counted = simulate(monkeypatch)
    graphed = iterated(trainer("graphed", cuda_graphs="on", **changes), 3)
    assert counted.captures >= 2 and counted.replays >= 3 * 6 - 4
    for found, left in (in_place, graphed):
        assert found == rows
        assert left.keys() == tensors.keys()
        assert [name for name in tensors if not torch.equal(tensors[name], left[name])] == []


@pytest.mark.long
def test_changed_opponents_are_recaptured(trainer, monkeypatch):
    made = trainer("called", opponent="curriculum", curriculum=CurriculumConfig(opponents=("trivial", "easy")))
    counted = simulate(monkeypatch)
    graphed = trainer(
        "graphed", cuda_graphs="on", opponent="curriculum", curriculum=CurriculumConfig(opponents=("trivial", "easy"))
    )
    captures = []
    for commander in ("heuristic:trivial", "heuristic:easy", "heuristic:easy", "heuristic:trivial"):
        for run in (made, graphed):
            run.opponents.named.set_opponent(commander, 0.5)
            run.iterate()
        captures.append(counted.captures)
    assert captures[1] > captures[0], "two commanders decide"
    same = everything(graphed)
    assert [name for name, value in everything(made).items() if not torch.equal(value, same[name])] == []


@pytest.mark.long
def test_moved_battles_are_recaptured(trainer, monkeypatch):
    """A resume restores battles into new tensors."""
    made = trainer("called", opponent="self")
    counted = simulate(monkeypatch)
    graphed = trainer("graphed", opponent="self", cuda_graphs="on")
    for run in (made, graphed):
        run.iterate()
        found = run._parts()["battles"].state_dict()
        saved = StateDict({name: value.clone() for name, value in found.tensors.items()}, found.facts)
        run.iterate()
        run._parts()["battles"].load_state_dict(saved)
        before = counted.captures
        run.iterate()
    assert counted.captures == before + 1
    same = everything(graphed)
    assert [name for name, value in everything(made).items() if not torch.equal(value, same[name])] == []


def test_custom_policy_and_recorder_are_not_captured(trainer, monkeypatch, caplog):
    counted = simulate(monkeypatch)
    made = trainer(cuda_graphs="on")
    policies = made.opponents.assignment.policies
    commander = policies["heuristic"]
    policies["heuristic"] = lambda team: commander(team)
    made.collector.collect()
    made.env.observer = Mock()
    collector = TeamCollector(made.env, made.opponents.assignment, 2, 1, cuda_graph=True)
    assert counted.captures == 0 and not collector.cuda_graph
    said = [record.getMessage().partition(":")[2] for record in caplog.records]
    assert len(said) == 2 and "graph_key" in said[0] and "observer" in said[1]


def test_times_inside_a_graph_are_empty(trainer):
    row = trainer(cuda_graphs="on", opponent="self").iterate()
    assert row["env_s"] is None and row["act_s"] is None and row["learn_s"] > 0
    assert row["seconds"] > row["learn_s"]


def counter() -> tuple[torch.Tensor, list[str]]:
    return torch.zeros(()), []


def test_function_is_called_twice_then_captured_then_replayed(monkeypatch):
    total, calls = counter()
    counted = simulate(monkeypatch)

    def add() -> None:
        calls.append("called")
        total.add_(1)

    graphed = GraphedFunction(add, CPU, "adding")
    for number in range(1, 7):
        graphed("key")
        assert total == number
    assert len(calls) == 3 and counted.captures == 1 and counted.replays == 4
    graphed(None)
    assert len(calls) == 4 and total == 7
    for number in range(cuda_graphs.MOST_GRAPHS):
        for _ in range(3):
            graphed(number)
    assert len(graphed.graphs) == cuda_graphs.MOST_GRAPHS and "key" not in graphed.graphs
    graphed.forget()
    assert not graphed.graphs


def reading(total: torch.Tensor) -> None:
    total.add_(1)
    total.item()


def raising(total: torch.Tensor) -> None:
    if CARD.generator.captures:
        raise ValueError("no kernel for this\nand where")
    total.add_(1)


@pytest.mark.parametrize(
    ("work", "cause"),
    [(reading, "operation not permitted when stream is capturing: aten::_local"), (raising, "no kernel for this)")],
)
def test_failed_capture_is_undone_and_logged_once(monkeypatch, caplog, work, cause):
    counted, total, other = simulate(monkeypatch), torch.zeros(()), torch.zeros(())
    before = CARD.stream
    beside = GraphedFunction(lambda: other.add_(1), CPU, "adding")
    graphed = GraphedFunction(lambda: work(total), CPU, "working")
    for number in range(1, 6):
        beside("key")
        with caplog.at_level(logging.WARNING):
            graphed("key")
        assert (total, other) == (number, number)
        assert CARD.stream is before and CARD.is_clean
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{PREFIX}working runs without a CUDA graph: it cannot be captured ({cause}")
    assert graphed.pool is None
    # The generator's state has changed since the capture, so recapture.
    beside("key")
    assert counted.captures == 2


def test_warm_up_uses_one_stream(monkeypatch):
    """Memory freed on one stream is not reused on another."""
    total, _ = counter()
    simulate(monkeypatch)
    Stream.made = 0
    for name in ("one", "other"):
        graphed = GraphedFunction(lambda: total.add_(1), CPU, name)
        for key in range(3):
            for _ in range(3):
                graphed(key)
    assert Stream.made == 1 and total == 18


def test_interrupt_during_capture_is_raised(monkeypatch):
    simulate(monkeypatch)

    def interrupted() -> None:
        if CARD.generator.captures:
            raise KeyboardInterrupt

    graphed, before = GraphedFunction(interrupted, CPU, "working"), CARD.stream
    graphed("key")
    graphed("key")
    with pytest.raises(KeyboardInterrupt):
        graphed("key")
    assert CARD.stream is before and CARD.is_clean


def test_graph_freezes_python_numbers_and_buffers(monkeypatch):
    """Check the mocks: Python numbers and buffers are frozen at capture."""
    simulate(monkeypatch)
    place = {"total": torch.zeros(()), "step": 1.0}

    def add() -> None:
        place["total"].add_(place["step"])

    graphed = GraphedFunction(add, CPU, "adding")
    for _ in range(3):
        graphed("key")
    first, place["step"] = place["total"], 10.0
    graphed("key")
    assert first == 4
    place["total"] = torch.zeros(())
    graphed("key")
    assert first == 5 and place["total"] == 0
