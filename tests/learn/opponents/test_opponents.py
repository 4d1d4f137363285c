"""A battle keeps its opponent from start to end (R21), and all opponents run in one forward pass."""

import dataclasses
import json

import pytest
import torch
from builders import flat_maps
from tensordict import TensorDict
from tiny_runs import TINY, short_battles
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.config import TrainConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import SLOT, OpponentGroup, PolicyAssignment, count_readers
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.named import NamedOpponents
from echelon.learn.opponents.snapshot_pool import MixedPool, SnapshotPool
from echelon.rules.physics import RulesConfig
from echelon.runtime.files import FileError
from echelon.runtime.tensor_files import StateDict


def readers_of(rivals, memory):
    return count_readers(memory, rivals.blocks, rivals.num_slots)


def policies(count: int) -> list[ActorCritic]:
    """Return different policies of one architecture, with clearly different actions."""
    made = []
    for number in range(count):
        torch.manual_seed(number)
        policy = TINY.build(PolicySpecs(8))
        policy.network.head.loc.weight.data.mul_(50)
        made.append(policy.eval())
    return made


class Pool:
    """Policies named 0, 1, 2 ... with given shares."""

    def __init__(self, known: list[ActorCritic], shares: dict[str, float] | None = None) -> None:
        self.known = known
        self.shares = shares or {str(number): 1 / len(known) for number in range(len(known))}

    def weights_of(self, name: str) -> dict[str, torch.Tensor]:
        return self.known[int(name)].state_dict()


def flat(names: list[list[str]]) -> list[str]:
    return [name for own in names for name in own]


def teams(battles: int, rivals: FrozenOpponents | NamedOpponents) -> TensorDict:
    """Return the opponents' view at the start of their battles."""
    config = short_battles()
    seats = PolicyAssignment(TINY.build(PolicySpecs(8)), [OpponentGroup("them", rivals, battles)])
    env = EchelonEnv(config, battles, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(config))
    return seats.view(env.reset(), "them")


def carried(decided: TensorDict, team: TensorDict) -> TensorDict:
    """Return the team at its next decision, with the same observation."""
    following = team.copy()
    return following.set("memory", decided["next", "memory"])


@pytest.mark.requirement("R15")
def test_stacked_slots_act_as_each_policy_alone():
    torch.manual_seed(0)
    known = policies(6)
    rivals = FrozenOpponents(known[0], 2, 3, Pool(known))
    assert sorted(flat(rivals.names)) == list("012345"), "as many opponents as slots"
    assert not rivals.base.training, "frozen policies are in evaluation mode"
    team = teams(8, rivals)
    first = rivals(team.copy())
    second = carried(first, team)
    slots = torch.tensor([1, 2, 3, 2, 3, 1, 1, 2])
    second["memory", SLOT] = slots[:, None, None].expand_as(second["memory", SLOT]).float()
    own = {"h": second["memory", "h"].clone(), "c": second["memory", "c"].clone()}
    decided = rivals(second.copy())
    assert torch.equal(decided["next", "memory", SLOT], second["memory", SLOT]), "a battle keeps its slot"
    assert readers_of(rivals, decided["next", "memory"]).tolist() == [[1, 2, 1], [2, 1, 1]]
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        for battle, slot in enumerate(slots.tolist()):
            alone = second[battle : battle + 1].copy()
            alone["memory"] = TensorDict({k: v[battle : battle + 1] for k, v in own.items()}, alone.batch_size)
            expected = known[int(rivals.names[battle // 4][slot - 1])](alone)
            for name in ("h", "c"):
                torch.testing.assert_close(
                    decided["next", "memory", name][battle], expected["next", "memory", name][0], atol=1e-5, rtol=1e-4
                )


@pytest.mark.requirement("R21")
def test_slot_retires_on_new_shares_and_refills_when_unused():
    pool = Pool(policies(5), {"0": 0.25, "1": 0.25, "2": 0.25, "3": 0.25})
    rivals = FrozenOpponents(pool.known[0], 2, 2, pool)
    before, names = {name: stack.clone() for name, stack in rivals.weights.items()}, [*map(list, rivals.names)]
    free = [[0, 0], [0, 0]]
    rivals.refresh(free)
    assert rivals.names == names and rivals.retiring == [-1, -1], "opponents stay while the shares are unchanged"
    pool.shares = {"0": 0.2, "1": 0.2, "2": 0.2, "3": 0.2, "4": 0.2}
    rivals.refresh([[3, 1], [2, 2]])
    assert rivals.retiring == [0, 0] and rivals.names == names, "the oldest slot retires"
    assert rivals.edges.tolist() == [[0.0], [0.0]], "battles no longer draw the retiring slot"
    assert all(torch.equal(stack, before[name]) for name, stack in rivals.weights.items())
    rivals.refresh([[0, 4], [1, 3]])
    assert rivals.names[0][0] == "4", "an opponent without a slot"
    assert rivals.retiring == [-1, 0] and rivals.names[1] == names[1]
    assert rivals.edges.tolist() == [[0.5], [0.0]]
    weights = pool.weights_of("4")
    assert all(torch.equal(stack[0], weights[f"network.{name}"]) for name, stack in rivals.weights.items())


def test_opponent_removed_from_pool_is_not_drawn_and_is_replaced_first():
    pool = Pool(policies(4), {"0": 0.5, "1": 0.5})
    rivals = FrozenOpponents(pool.known[0], 1, 2, pool)
    assert sorted(rivals.names[0]) == ["0", "1"]
    second = rivals.names[0][1]
    pool.shares = {rivals.names[0][0]: 0.5, "3": 0.5}
    rivals.refresh([[2, 2]])
    assert rivals.retiring == [1] and rivals.edges.tolist() == [[1.0]]
    pool.shares = {"2": 1.0}
    rivals.refresh([[2, 2]])
    assert rivals.edges.tolist() == [[1.0]], "if all have left, one stays until the other is replaced"
    rivals.refresh([[4, 0]])
    assert rivals.names[0][1] == "2" != second and rivals.edges.tolist() == [[0.0]]


@pytest.mark.requirement("R21", "R24")
def test_battles_draw_slots_with_probability_of_shares():
    shares = {"0": 0.5, "1": 0.3, "2": 0.15, "3": 0.05}
    rivals = FrozenOpponents(policies(1)[0], 1, 4, Pool(policies(4), {name: 0.25 for name in shares}))
    rivals.pool.shares = shares
    rivals.refresh([[1, 1, 1, 1]])
    assert rivals.retiring == [0]
    team, count = teams(2, rivals), 800
    torch.manual_seed(0)
    readers = readers_of(rivals, rivals(team[[0] * count])["next", "memory"])[0].tolist()
    drawn = {name: shares[name] for slot, name in enumerate(rivals.names[0]) if slot != 0}
    total = sum(drawn.values())
    assert readers[0] == 0 and sum(readers) == count
    expected = [count * drawn[name] / total for name in rivals.names[0][1:]]
    statistic = sum((found - mean) ** 2 / mean for found, mean in zip(readers[1:], expected, strict=True))
    assert statistic < 13.816, "chi-squared of two degrees of freedom, 99.9 %"


def test_slots_are_filled_in_proportion_to_the_shares():
    known = policies(1) * 20
    for shares in ({"0": 0.5, "1": 0.25, "2": 0.25}, {"0": 0.7, "1": 0.2, "2": 0.1}):
        rivals = FrozenOpponents(known[0], 8, 2, Pool(known, shares))
        held = {name: flat(rivals.names).count(name) for name in shares}
        assert all(abs(held[name] - 16 * share) < 1 for name, share in shares.items()), held


@pytest.mark.requirement("R21")
def test_default_run_has_sixteen_active_opponents():
    config = TrainConfig()
    known = policies(1) * 20
    rivals = FrozenOpponents(known[0], config.past_blocks, config.past_slots, Pool(known))
    assert len(set(flat(rivals.names))) == 16
    torch.manual_seed(0)
    readers = readers_of(rivals, rivals(teams(2, rivals)[[0] * 160])["next", "memory"])
    assert (readers > 0).all(), "every opponent is used"


def test_snapshot_pool_is_bounded_and_copies_weights():
    past = SnapshotPool(3)
    policy = policies(1)[0]
    for number in range(5):
        past.add(str(number), policy)
        with torch.no_grad():
            policy.network.head.loc.bias.add_(1.0)
    assert past.shares == {"2": 1 / 3, "3": 1 / 3, "4": 1 / 3}
    found = [round(past.weights_of(name)["network.head.loc.bias"][0].item()) for name in past.shares]
    assert found == [2, 3, 4]


def test_remaining_pool_share_goes_to_learners_snapshots():
    known, past = policies(3), SnapshotPool(2)
    for name in ("early", "late"):
        past.add(name, known[0])
    pool = Pool(known, {"1": 0.4, "2": 0.2})
    assert MixedPool(None, past).shares == {"early": 0.5, "late": 0.5}
    assert MixedPool(pool, past).shares == {"1": 0.4, "2": 0.2, "early": pytest.approx(0.2), "late": pytest.approx(0.2)}
    pool.shares = {"1": 0.1, "2": 0.9 - 1e-12}
    assert set(MixedPool(pool, past).shares) == {"1", "2"}
    assert MixedPool(pool, past).weights_of("2") is not past.weights_of("late")


def test_active_opponents_are_restored_from_state():
    pool = Pool(policies(5), {"0": 0.25, "1": 0.25, "2": 0.25, "3": 0.25})
    first = FrozenOpponents(pool.known[0], 2, 2, pool)
    pool.shares = {"1": 0.5, "4": 0.5}
    first.refresh([[1, 1], [0, 1]])
    second = FrozenOpponents(pool.known[0], 2, 2, pool)
    second.load_state_dict(StateDict(first.state_dict().tensors, json.loads(json.dumps(first.state_dict().facts))))
    for rivals in (first, second):
        rivals.refresh([[0, 1], [0, 1]])
    assert first.names == second.names and first.retiring == second.retiring and torch.equal(first.edges, second.edges)
    assert all(torch.equal(stack, second.weights[name]) for name, stack in first.weights.items())


def test_invalid_slots_in_checkpoint_raise():
    pool = Pool(policies(4))
    rivals = FrozenOpponents(pool.known[0], 2, 2, pool)
    for facts in ({"newest": [1, 2]}, {"newest": [0, 0], "retiring": [-2, 0]}, {"newest": [0, 0], "retiring": [0, 0]}):
        with pytest.raises(FileError, match=r"state\.(newest\[1\]|retiring\[0\]|shares) must"):
            rivals.load_state_dict(StateDict(rivals.weights, {"names": ["0", "1", "2", "3"], **facts}))


@pytest.mark.requirement("R21")
def test_battle_keeps_its_tier_and_weapon_use_until_it_ends():
    config = short_battles()
    trivial, hard, expert = names = ["heuristic:trivial", "heuristic:hard", "heuristic:expert"]
    rivals = NamedOpponents(config, names, trivial, 0.25, torch.device("cpu"))
    team = teams(4, rivals)
    first = rivals(team.copy())
    memory = first["next", "memory"]
    assert (memory[SLOT] == 1).all() and (memory["weapon_use"] == 0.25).all()
    rivals.set_opponent(hard, 1.0)
    assert rivals.slots == [trivial, hard]
    second = carried(first, team)
    second["memory"][2:] = 0  # two battles restart
    decided = rivals(second.copy())
    assert decided["next", "memory", SLOT][:, 0, 0].tolist() == [1, 1, 2, 2]
    assert decided["next", "memory", "weapon_use"][:, 0, 0].tolist() == [0.25, 0.25, 1.0, 1.0]
    for tier, use, battles in (("trivial", 0.25, slice(0, 2)), ("hard", 1.0, slice(2, 4))):
        alone = Heuristic(config, tier, use)(second[battles].copy())
        assert torch.equal(decided["action"][battles], alone["action"])
    # A third tier waits until no battle uses the first one.
    rivals.set_opponent(expert, 1.0)
    assert rivals.slots == [trivial, hard]
    rivals.refresh(readers_of(rivals, decided["next", "memory"]).tolist())
    assert rivals.slots == [trivial, hard]
    rivals.refresh([[0, 4]])
    assert rivals.slots == [expert, hard] and rivals.newest == 0


@pytest.mark.requirement("R21")
def test_opponents_change_only_between_battles():
    """In a long rollout every battle's slot is constant from is_init to done."""
    config = dataclasses.replace(short_battles(), rules=RulesConfig(max_episode_s=1.0))
    torch.manual_seed(0)
    learner = TINY.build(PolicySpecs(8))
    past = SnapshotPool(4)
    past.add("0", learner)
    rivals = FrozenOpponents(learner, 2, 3, past)
    seats = PolicyAssignment(learner, [OpponentGroup("past", rivals, 4)])
    env = EchelonEnv(config, 4, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(config))
    td = env.reset()
    slots, begins = [], []
    with torch.inference_mode():
        for decision in range(24):
            begins.append(td["is_init"][:, 0].clone())
            seats.decide(td)
            # The opponent commands one team per battle; its memory for the other team is zero.
            slots.append(sum(td["next", group, "memory", "past", SLOT][:, 0, 0] for group in ("blue", "red")))
            _, td = env.step_and_maybe_reset(td)
            if decision % 3 == 2:
                past.add(str(decision), learner)
                rivals.refresh(readers_of(rivals, seats.view(td, "past")["memory"]).tolist())
    slots, begins = torch.stack(slots), torch.stack(begins)
    changed = slots[1:] != slots[:-1]
    assert changed.any() and not (changed & ~begins[1:]).any()
    assert "0" not in flat(rivals.names), "all opponents were replaced meanwhile"
