"""A policy reads its own columns by name from observations with additional columns and streams."""

import json
from collections.abc import Iterator

import pytest
import torch
from tensordict import TensorDict
from tiny_runs import TINY, tiny_run

from echelon.agents.runner import TeamSeat
from echelon.agents.seating import RunnerMaker
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.learn.checkpoint.files import newest_checkpoint, save_checkpoint
from echelon.learn.checkpoint.format import METADATA, POLICY, Counters, open_checkpoint
from echelon.learn.checkpoint.shipped import FOLDER, trained
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.policy_layout import PolicyLayout
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError

NEW = layout.Feature("spare", 2, -1.0, 1.0)
AT = {"ego": 5, "contacts": 0, "squad": len(layout.SQUAD)}
"""Position of the new column in each stream: in the middle, first, last."""


def with_new_column(columns: tuple[layout.Feature, ...], stream: str) -> tuple[layout.Feature, ...]:
    return (*columns[: AT[stream]], NEW, *columns[AT[stream] :])


@pytest.fixture
def later_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Layout of a later version: two more columns in each selectable stream, and one more stream."""
    before = layout.streams

    def after(comm_dim: int) -> dict[str, tuple[layout.Feature, ...]]:
        streams = before(comm_dim)
        return {
            **{name: with_new_column(f, name) if name in AT else f for name, f in streams.items()},
            "sonar": (NEW,),
        }

    monkeypatch.setattr(layout, "streams", after)
    monkeypatch.setattr(layout, "STREAMS", (*layout.STREAMS, "sonar"))
    PolicyLayout.current.cache_clear()
    yield
    monkeypatch.undo()
    PolicyLayout.current.cache_clear()


def seen(config: EnvConfig, decisions: int = 3) -> TensorDict:
    """Return blue's observations in three battles after some decisions, with its ego streams as `enemy`."""
    torch.manual_seed(0)
    td = EchelonEnv(config, num_envs=3, device="cpu", seed=0).rollout(decisions)[:, -1]
    return TensorDict(
        {
            "observation": td["blue", "observation"],
            "telemetry": td["telemetry"],
            "enemy": td["red", "observation", "ego"],
        },
        [3],
    )


def of_later_version(team: TensorDict) -> TensorDict:
    """Return the observations with random values in the new columns."""
    later = team.clone()

    def widened(leaf: torch.Tensor, stream: str) -> torch.Tensor:
        start = sum(feature.width for feature in layout_of(stream)[: AT[stream]])
        spare = torch.rand(*leaf.shape[:-1], NEW.width)
        return torch.cat([leaf[..., :start], spare, leaf[..., start:]], -1)

    for stream in AT:
        later["observation", stream] = widened(team["observation", stream], stream)
    later["enemy"] = widened(team["enemy"], "ego")
    later["observation", "sonar"] = torch.rand(3, team["observation", "ego"].shape[1], 2)
    return later


def layout_of(stream: str) -> tuple[layout.Feature, ...]:
    return {"ego": layout.EGO, "contacts": layout.CONTACT, "squad": layout.SQUAD}[stream]


@torch.no_grad()
def acted(policy: ActorCritic, team: TensorDict) -> dict[str, torch.Tensor]:
    """Return actions, values and embeddings over a sequence."""
    mechs, noise = team["observation", "ego"].shape[1], torch.Generator().manual_seed(1)
    team = team.clone()
    team["memory"] = policy.memory_spec().expand(3, mechs).zero()
    team["noise"] = torch.randn(3, mechs, policy.specs.action_width, generator=noise)
    out = policy(team)
    ego = team["observation", "ego"]
    value = policy.critic(out["embed"], ego, team["enemy"])
    keys = policy.keys
    inputs = keys.inputs(team, keys.layout(team, is_sequence=False))
    streams = tuple(leaf[None] for leaf in inputs.streams)
    embed = policy.network.unroll(streams, inputs.telemetry[None], inputs.memory, torch.ones(1, 3))
    return {"action": out["action"], "value": value, "embed": embed}


@pytest.fixture(scope="module")
def observations() -> dict[int, TensorDict]:
    return {len(config.blue): seen(config) for config in (EnvConfig.small(), EnvConfig.standard())}


@pytest.mark.parametrize("name", trained())
def test_shipped_policy_acts_the_same_on_wider_observations(name, observations, request):
    checkpoint = open_checkpoint(FOLDER / name)
    team = observations[len(checkpoint.env.blue)]
    before = acted(checkpoint.policy(), team)
    later = of_later_version(team)
    request.getfixturevalue("later_version")
    policy = open_checkpoint(FOLDER / name).policy()
    assert policy.network.columns.selected == ["contacts", "squad", "ego"]
    for leaf, value in acted(policy, later).items():
        assert torch.equal(value, before[leaf]), leaf


def earlier() -> PolicyLayout:
    """Layout of an earlier version: without the columns `jam` and `closing`, and with `hp` before `alive`."""
    streams = layout.describe(8)
    ego = [column for column in streams["ego"] if column[0] not in ("jam", "hp")]
    hp = next(column for column in streams["ego"] if column[0] == "hp")
    contacts = [column for column in streams["contacts"] if column[0] != "closing"]
    return PolicyLayout.of({**streams, "ego": [ego[0], hp, *ego[1:]], "contacts": contacts})


def test_policy_of_earlier_layout_ignores_the_columns_it_lacks(observations):
    policy = TINY.build(PolicySpecs(8, earlier())).eval()
    team = observations[5]
    changed = team.clone()
    for stream, name in (("ego", "jam"), ("contacts", "closing")):
        changed["observation", stream][..., layout.columns(layout_of(stream), name)] += 1.0
    before, after = acted(policy, team), acted(policy, changed)
    assert all(torch.equal(before[leaf], after[leaf]) for leaf in before)
    changed["observation", "ego"][..., layout.columns(layout.EGO, "hp")] -= 0.5
    assert not torch.equal(acted(policy, changed)["action"], before["action"])


def test_layout_is_saved_with_the_policy(tmp_path):
    policy = TINY.build(PolicySpecs(8, earlier()))
    save_checkpoint(tmp_path / "one", policy, ValueNorm(), EnvConfig.small(), Counters(), {})
    opened = open_checkpoint(tmp_path / "one")
    assert opened.specs.columns == earlier() != opened.specs.today
    loaded = opened.policy()
    assert loaded.specs == policy.specs
    assert all(torch.equal(loaded.state_dict()[name], value) for name, value in policy.state_dict().items())


def test_training_resumes_with_earlier_layout(tmp_path):
    policy = TINY.build(PolicySpecs(8, earlier()))
    save_checkpoint(tmp_path / "one", policy, ValueNorm(), EnvConfig.small(), Counters(), {})
    run = tiny_run(init_from="one", total_agent_steps=10**6)
    trainer = Trainer(run, tmp_path / "run", init=open_checkpoint(tmp_path / "one"))
    trainer.train(1)
    trained = open_checkpoint(newest_checkpoint(tmp_path / "run" / "checkpoints"))
    assert trained.specs.columns == earlier()
    changed = trained.policy().state_dict()["network.encoder.body.0.weight"]
    assert not torch.equal(changed, policy.state_dict()["network.encoder.body.0.weight"])


def test_networks_of_different_layouts_are_not_stacked():
    specs = {"older": PolicySpecs(8, earlier()), "newer": PolicySpecs(8), "twin": PolicySpecs(8)}
    policies = {name: TINY.build(specs[name]).eval() for name in specs}
    slots = {name: [TeamSeat(row, 0)] for row, name in enumerate(specs)}
    maker = RunnerMaker(torch.device("cpu"), torch.float32, compiled=False)
    groups = [stack.policies for stack in maker.stacked(policies, slots, 5)]
    assert groups == [[policies["older"]], [policies["newer"], policies["twin"]]]


def column(stream: str, run: str, **changes: object) -> dict[str, list[list[object]]]:
    """Return the current layout with one changed run of columns."""
    streams = {key: [list(c) for c in columns] for key, columns in layout.describe(8).items()}
    place = [c[0] for c in streams[stream]].index(run)
    row = dict(zip(("name", "width", "low", "high"), streams[stream][place], strict=True)) | changes
    streams[stream][place] = list(row.values())
    return streams


def without(stream: str, name: str = "") -> dict[str, list[list[object]]]:
    streams = layout.describe(8)
    if not name:
        return {key: columns for key, columns in streams.items() if key != stream}
    return {**streams, stream: [c for c in streams[stream] if c[0] != name]}


TODAY = layout.describe(8)
BAD = {
    "a column of a later version": (
        column("ego", "jam", name="sonar"),
        "layout.ego: column 'sonar': expected a column",
    ),
    "a column twice": (column("ego", "jam", name="hp"), "layout.ego: column 'hp': expected once, got 2 times"),
    "another width": (column("ego", "jam", width=2), "layout.ego: column 'jam': expected 1 wide .*, got 2 wide"),
    "another range": (column("contacts", "closing", low=0.0), "column 'closing': expected 1 wide within -1..1, got"),
    "a stream of a later version": ({**TODAY, "sonar": [["x", 1, 0.0, 1.0]]}, "layout.sonar: expected a stream"),
    "a stream that is missing": (without("squad"), "layout.squad: expected a list of columns, got none"),
    "no column alive": (without("ego", "alive"), "layout.ego: column 'alive': expected once, got none"),
    "an action without jets": (without("action", "vertical"), "layout.action: expected all columns of this version"),
    "a width without end": (column("ego", "jam", width=1 << 40), "layout.ego.*must be an integer 0..4096"),
    "a width that is no number": (column("ego", "jam", width="1"), "must be an integer 0..4096"),
    "no object": ([1], "layout must be an object"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_layout_names_column_and_version(name, tmp_path):
    stored, message = BAD[name]
    path = tmp_path / "one"
    save_checkpoint(path, TINY.build(PolicySpecs(8)), ValueNorm(), EnvConfig.small(), Counters(), {})
    metadata = json.loads((path / METADATA).read_text())
    metadata |= {"layout": stored, "written_by": "9.8.7"}
    (path / METADATA).write_text(json.dumps(metadata))
    with pytest.raises(FileError, match=message) as told:
        open_checkpoint(path)
    assert "\n" not in str(told.value) and str(told.value).startswith(METADATA)
    assert "9.8.7" in str(told.value) or "must be" in message


def test_weights_that_contradict_layout_raise(tmp_path):
    """The layout lists one column less than the weights."""
    path = tmp_path / "one"
    save_checkpoint(path, TINY.build(PolicySpecs(8)), ValueNorm(), EnvConfig.small(), Counters(), {})
    stored = PolicyLayout.of(without("ego", "jam"))
    metadata = json.loads((path / METADATA).read_text())
    metadata |= {"layout": stored.as_json(), "layout_hash": stored.sha256}
    (path / METADATA).write_text(json.dumps(metadata))
    width = PolicyLayout.current(8).width("ego")
    with pytest.raises(
        FileError, match=rf"{POLICY}.*encoder.body.*{METADATA} lists columns: .*{width - 1} of ego; written"
    ):
        open_checkpoint(path).policy()
