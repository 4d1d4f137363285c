"""Resolution of names to commanders, including a user's own."""

import dataclasses
import json
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from leagues import checkpoint_of, fresh

import echelon
from echelon.agents import names as resolve_module
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match, named_match
from echelon.arena.resolve import Commander, register_resolver, resolve
from echelon.env.tasks.task import Protocol, Task
from echelon.learn.config import TrainConfig
from echelon.pipelines import play
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

EXAMPLES = Path(__file__).parents[1] / "examples"
CPU = torch.device("cpu")
BRIEF = dataclasses.replace(EnvConfig.small(), map_pool=1, rules=RulesConfig(max_episode_s=2.0))


@pytest.fixture
def in_examples(monkeypatch):
    """Change to the folder of the examples, which is not in Python's path."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place or ".").resolve() != EXAMPLES])
    monkeypatch.delitem(sys.modules, "charger", raising=False)


def test_class_in_a_module_of_the_current_folder_resolves(in_examples):
    commander = resolve("charger:Charger")
    policy = commander.policy(BRIEF, CPU)
    assert commander.id == "charger:Charger" and commander.env is None and type(policy).__name__ == "Charger"
    view = echelon.versus(BRIEF, "charger:Charger", 2, "cpu", 0)
    before = view.env.state.mechs.pos.clone()
    td = view.reset()
    for _ in range(4):
        td["agents", "action"] = torch.zeros(2, 5, 26)
        _, td = view.step_and_maybe_reset(td)
    walked = (view.env.state.mechs.pos - before)[..., :2].norm(dim=-1)
    assert (walked[0, 5:] > 1).all() and (walked[1, :5] > 1).all()  # the other team: red, then blue
    assert (walked[0, :5] < 1).all() and (walked[1, 5:] < 1).all()


def test_a_tier_needs_no_prefix(tmp_path, monkeypatch):
    """The rule applies to all names of commanders, even if a folder has that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hard").mkdir()
    assert resolve("hard") == resolve("heuristic:hard") and resolve("heuristic").id == "heuristic:normal"
    task = Task("tests/brief-v1", "a few decisions", BRIEF, *current_versions(), protocol=Protocol(battles=2, seed=9))
    assert list(echelon.evaluate("hard", task, ["easy"], device="cpu").results) == ["easy"]
    store = fresh(tmp_path)
    assert store.find("hard") == store.find("heuristic:hard") and store.find("hard").is_scripted
    store.execute("UPDATE entries SET name = 'easy' WHERE id = ?", store.add(checkpoint_of(tmp_path, 1)).id)
    assert not store.find("easy").is_scripted, "an entry of that name goes before the tier"


def test_custom_commander_plays_in_the_arena(in_examples, capsys, monkeypatch):
    monkeypatch.setitem(ENV_PRESETS, "small", lambda: BRIEF)
    play.Play("charger:Charger", "heuristic:trivial", battles=2, env="small", json=True).run()
    result = json.loads(capsys.readouterr().out)
    assert result["x"] == "charger:Charger" and result["battles"] == 2


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("absent.home:Charger", FileError, "absent.home:Charger: no module absent.home in .* or on Python's path"),
        ("charger:Runner", ConfigError, "charger must have a class or function Runner, got None"),
        ("charger:PATH", ConfigError, "charger must have a class or function PATH, got slice"),
        (
            "no/folder",
            FileError,
            r"expected a tier, heuristic\[:tier\], a checkpoint or run folder, .*or package.module:Commander",
        ),
    ],
)
def test_unresolved_name_raises_one_line(in_examples, name, error, message):
    with pytest.raises(error, match=message) as caught:
        resolve(name).policy(BRIEF, CPU)
    assert "\n" not in str(caught.value)


def test_a_path_is_taken_wherever_a_name_is(tmp_path, monkeypatch):
    """This includes a path that looks like the name of a tier."""
    monkeypatch.chdir(tmp_path)
    path = checkpoint_of(tmp_path, 1, env=BRIEF).rename("hard")
    name, protocol = "./hard", Protocol(battles=2, seed=9)
    task = Task("tests/brief-v1", "brief", BRIEF, *current_versions(), protocol=protocol)
    assert resolve(path).id == resolve(name).id
    assert "ActorCritic" in repr(echelon.versus(BRIEF, path, 2, "cpu", 0))
    assert TrainConfig(opponent=path) == TrainConfig(opponent=name)
    results = [echelon.evaluate(each, task, [each], device="cpu").results for each in (path, name)]
    assert [list(one) for one in results] == [[name], [name]]
    assert named_match(path, "heuristic:easy", None, 2, ArenaConfig(CPU)).x == resolve(name).id


class Unbuilt:
    """A commander's class, passed instead of a commander."""


@pytest.mark.parametrize("given", [Unbuilt, None, 3])
@pytest.mark.parametrize(
    ("use", "message"),
    [
        (resolve, "a commander must be a name or the path of a folder, got "),
        (lambda given: echelon.versus(BRIEF, given, 2, "cpu", 0), "opponent must be a name, a path or a team policy"),
        (lambda given: TrainConfig(opponent=given), r"TrainConfig\.opponent must be a str, got "),
        (
            lambda given: echelon.evaluate("heuristic", echelon.latest("small-5v5"), [given], 2),
            "opponents must be a list of at least one",
        ),
        (
            lambda given: Match(("x", given), {}, BRIEF, 2, ArenaConfig(CPU)),
            "policy 'x' must be a TeamPolicy, neither a class nor a name",
        ),
    ],
)
def test_invalid_policy_raises_one_line(given, use, message):
    with pytest.raises(ConfigError, match=message) as error:
        use(given)
    assert "\n" not in str(error.value)


def test_a_class_is_no_policy_to_evaluate():
    with pytest.raises(ConfigError, match="got the class Unbuilt"):
        echelon.evaluate(Unbuilt, echelon.latest("small-5v5"), battles=2)


def test_missing_checkpoint_error_lists_existing_ones(tmp_path):
    kept = tmp_path / "run" / "checkpoints"
    kept.mkdir(parents=True)
    one = checkpoint_of(tmp_path, 1)
    for number in range(50, 400, 50):
        shutil.copytree(one, kept / f"iteration_{number:06d}")
    told = "; .*run/checkpoints has iteration_000150, iteration_000200, .*, iteration_000350$"
    with pytest.raises(FileError, match=f"iteration_000010: expected a tier, heuristic.*, found none{told}"):
        resolve(str(kept / "iteration_000010"))
    assert resolve(str(tmp_path / "run")).id == resolve(str(one)).id


FAULTY = textwrap.dedent(
    """
    import torch
    from torchrl.data import Composite, Unbounded

    class Wide:
        def __init__(self, config, width):
            self.width = width

    class Broken:
        def __init__(self, config):
            raise KeyError("weights")

    class Silent:
        def __init__(self, config):
            pass
        def __call__(self, team):
            team["observation", "ego"].sum()

    class Idle(Silent):
        def __call__(self, team):
            return team

    class Narrow(Silent):
        def __call__(self, team):
            return team.set("action", torch.zeros(*team.shape, 3))

    class Double(Silent):
        def __call__(self, team):
            return team.set("action", torch.zeros(*team.shape, 26, dtype=torch.float64))

    class Torn(Silent):
        def __call__(self, team):
            return team.set("action", torch.zeros(26))

    class Forgetful(Silent):
        def memory_spec(self):
            return Composite(seen=Unbounded((2,)))
        def __call__(self, team):
            return team.set("action", torch.zeros(*team.shape, 26))

    class Strange(Silent):
        def memory_spec(self):
            return {"seen": 2}
        def __call__(self, team):
            return team.set("action", torch.zeros(*team.shape, 26))

    def decide(team):
        return team["observation"]

    def nothing(config):
        pass
    """
)
MISTAKES = {
    "Wide": "builds a policy from the battle's EnvConfig, got TypeError: .*missing 1 required .* 'width'$",
    "Broken": r"builds a policy from the battle's EnvConfig, got KeyError: 'weights' \(faulty.py:\d+\)",
    "decide": "builds a policy from the battle's EnvConfig, got TypeError: .* not subscriptable",
    "nothing": "must build a policy, a function of one team, got None",
    "Silent": r'must return the team it was given: return team.set\("action", action\), got None',
    "Idle": r"the action of 2 battles, 5 mechs, 26 columns .* must be torch.float32 of shape \(2, 5, 26\), got none",
    "Narrow": r"must be torch.float32 of shape \(2, 5, 26\), got torch.float32 of shape \(2, 5, 3\)",
    "Double": r"must be torch.float32 of shape \(2, 5, 26\), got torch.float64 of shape \(2, 5, 26\)",
    "Torn": r"expected a decision for a team of 5 mechs, got RuntimeError: batch dimension mismatch.*faulty.py",
    "Forgetful": r"\('next', 'memory', 'seen'\), which memory_spec\(\) declares, must be .*\(2, 5, 2\), got none",
    "Strange": r"expected memory_spec\(\) to be a Composite spec, got AttributeError: .*'expand'",
}


@pytest.fixture
def faulty(monkeypatch, tmp_path):
    """Write a module of commanders with one mistake each."""
    (tmp_path / "faulty.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("faulty", None)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_faulty_commander_raises_one_line_before_any_battle(faulty, mistake):
    with pytest.raises(ConfigError, match=f"^faulty:{mistake}.*{MISTAKES[mistake]}") as caught:
        resolve(f"faulty:{mistake}").policy(BRIEF, CPU)
    assert "\n" not in str(caught.value)


def test_import_error_inside_a_module_stays_visible(monkeypatch, tmp_path):
    (tmp_path / "needy.py").write_text("import not_installed_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        resolve("needy:Commander")


def test_commander_has_reproducible_weights_and_keeps_the_callers_generator(monkeypatch, tmp_path):
    network = """
        import torch

        class Network(torch.nn.Module):
            def __init__(self, config):
                super().__init__()
                self.calls, self.layer = 0, torch.nn.Linear(3, 26)
            def forward(self, team):
                self.calls += 1
                return team.set("action", self.layer(torch.rand(*team.shape, 3)))
        """
    (tmp_path / "networks.py").write_text(textwrap.dedent(network))
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two = (resolve("networks:Network").policy(BRIEF, CPU) for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(one.layer.weight, two.layer.weight)
    assert one.calls == 0 and not one.training


def test_a_prefix_is_registered_and_named_among_the_forms(monkeypatch):
    monkeypatch.setattr(resolve_module, "_RESOLVERS", {})
    register_resolver("twin", "twin:TIER", lambda name: Commander(f"heuristic:{name.partition(':')[2]}"))
    assert resolve("twin:hard").id == "heuristic:hard"
    with pytest.raises(
        FileError, match=r"a checkpoint or run folder, twin:TIER, or package.module:Commander, found none"
    ):
        resolve("missing")
    with pytest.raises(ConfigError, match=r"a resolver's prefix must be a word other than .*, got 'heuristic'"):
        register_resolver("heuristic", "heuristic:TIER", resolve)
