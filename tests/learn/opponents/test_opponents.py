"""One opponent a battle, from its beginning to its end (R21), and all of them in one forward."""

import torch
from builders import flat_maps
from tensordict import TensorDict
from tiny_runs import TINY, short_battles
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.opponents.frozen import FrozenOpponents
from echelon.learn.opponents.named import NamedOpponents
from echelon.learn.opponents.slots import SLOT
from echelon.learn.opponents.snapshot_pool import Snapshot, SnapshotPool


def policies(count: int) -> list[ActorCritic]:
    """Different policies of one architecture, with opinions."""
    made = []
    for number in range(count):
        torch.manual_seed(number)
        policy = TINY.build(PolicySpecs(8))
        policy.network.head.loc.weight.data.mul_(50)
        made.append(policy.eval())
    return made


def challenger(number: int, policy: ActorCritic) -> Snapshot:
    return Snapshot(str(number), policy.state_dict())


def teams(battles: int, rivals: FrozenOpponents | NamedOpponents) -> TensorDict:
    """What an opponent is shown as its battles begin."""
    config = short_battles()
    seats = PolicyAssignment(TINY.build(PolicySpecs(8)), [OpponentGroup("them", rivals, battles)])
    env = EchelonEnv(config, battles, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(config))
    return seats.view(env.reset(), "them")


def carried(decided: TensorDict, team: TensorDict) -> TensorDict:
    """The team at its next decision, having seen nothing new."""
    following = team.copy()
    return following.set("memory", decided["next", "memory"])


def test_blocks_and_slots_play_as_each_policy_alone():
    torch.manual_seed(0)
    known = policies(3)
    drawn = iter([challenger(0, known[0]), challenger(1, known[1]), challenger(2, known[2])])
    rivals = FrozenOpponents(TINY.build(PolicySpecs(8)), 2, lambda: next(drawn))
    team = teams(8, rivals)
    first = rivals(team.copy())
    # Two blocks of four battles, which met policies 0 and 1.
    assert rivals.readers(first["next", "memory"]).tolist() == [[0, 4], [0, 4]]
    rivals.refresh([[0, 4], [1, 4]])  # only the first block has a free slot
    assert rivals.names == [["2", "0"], ["", "1"]]
    second = carried(first, team)
    second["memory"][1:4] = 0  # the first battle goes on, three of its block begin anew
    own = {"h": second["memory", "h"].clone(), "c": second["memory", "c"].clone()}
    decided = rivals(second.copy())
    who = [0, 2, 2, 2, 1, 1, 1, 1]
    assert decided["next", "memory", SLOT][:, 0, 0].tolist() == [2, 1, 1, 1, 2, 2, 2, 2]
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        for battle, number in enumerate(who):
            alone = second[battle : battle + 1].copy()
            alone["memory"] = TensorDict({k: v[battle : battle + 1] for k, v in own.items()}, alone.batch_size)
            expected = known[number](alone)
            for name in ("h", "c"):
                torch.testing.assert_close(
                    decided["next", "memory", name][battle], expected["next", "memory", name][0], atol=1e-5, rtol=1e-4
                )


def test_a_slot_that_is_read_is_not_filled():
    known = policies(2)
    past = SnapshotPool(2, seed=0)
    for number, policy in enumerate(known):
        past.add(str(number), policy)
    rivals = FrozenOpponents(known[0], 2, past)
    before = {name: stack.clone() for name, stack in rivals.weights.items()}
    names = [list(pair) for pair in rivals.names]
    rivals.refresh([[3, 1], [2, 2]])
    assert rivals.names == names
    assert all(torch.equal(stack, before[name]) for name, stack in rivals.weights.items())


def test_past_selves_are_bounded_kept_apart_and_drawn_evenly():
    past = SnapshotPool(3, seed=0)
    policy = policies(1)[0]
    for number in range(5):
        past.add(str(number), policy)
        with torch.no_grad():
            policy.network.head.loc.bias.add_(1.0)
    assert [found.name for found in past.snapshots] == ["2", "3", "4"]
    assert [round(found.weights["network.head.loc.bias"][0].item()) for found in past.snapshots] == [2, 3, 4]
    counts = [0, 0, 0]
    for _ in range(600):
        counts[int(past().name) - 2] += 1
    assert min(counts) > 150


def test_a_battle_keeps_its_tier_and_handicap_until_it_ends():
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
    second["memory"][2:] = 0  # two battles begin anew
    decided = rivals(second.copy())
    assert decided["next", "memory", SLOT][:, 0, 0].tolist() == [1, 1, 2, 2]
    assert decided["next", "memory", "weapon_use"][:, 0, 0].tolist() == [0.25, 0.25, 1.0, 1.0]
    for tier, use, battles in (("trivial", 0.25, slice(0, 2)), ("hard", 1.0, slice(2, 4))):
        alone = Heuristic(config, tier, use)(second[battles].copy())
        assert torch.equal(decided["action"][battles], alone["action"])
    # A third tier waits until nobody meets the first any more.
    rivals.set_opponent(expert, 1.0)
    assert rivals.slots == [trivial, hard]
    rivals.refresh(rivals.readers(decided["next", "memory"]).tolist())
    assert rivals.slots == [trivial, hard]
    rivals.refresh([[0, 4]])
    assert rivals.slots == [expert, hard] and rivals.newest == 0


def test_opponents_change_only_where_battles_end():
    """A whole run of battles: every battle's slot is constant from is_init to done."""
    config = short_battles()
    torch.manual_seed(0)
    learner = TINY.build(PolicySpecs(8))
    past = SnapshotPool(4, seed=0)
    past.add("first", learner)
    rivals = FrozenOpponents(learner, 2, past)
    seats = PolicyAssignment(learner, [OpponentGroup("past", rivals, 4)])
    env = EchelonEnv(config, 4, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(config))
    td = env.reset()
    slots, begins = [], []
    with torch.inference_mode():
        for decision in range(40):
            begins.append(td["is_init"][:, 0].clone())
            seats.decide(td)
            # It commands one team of each battle, and remembers nothing of the other.
            slots.append(sum(td["next", group, "memory", "past", SLOT][:, 0, 0] for group in ("blue", "red")))
            _, td = env.step_and_maybe_reset(td)
            if decision % 5 == 4:
                rivals.refresh(rivals.readers(seats.view(td, "past")["memory"]).tolist())
    slots, begins = torch.stack(slots), torch.stack(begins)
    changed = slots[1:] != slots[:-1]
    assert changed.any() and not (changed & ~begins[1:]).any()
