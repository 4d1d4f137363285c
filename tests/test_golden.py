"""Five recorded battles that must be equal bit for bit on each processor.

A record contains the hash of all bits of the state, and a few integers for a reader. If a test fails:
`tests/test_processors.py` compares processors; `pytest tests/reference` separates rounding from a change of the rules.
"""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
import torch

from echelon.arena.fingerprint import digest_of, fingerprint, leaves
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules.actions import Act
from echelon.rules.config import EnvConfig
from echelon.rules.versions import RULES_VERSION
from echelon.runtime import noise

pytestmark = pytest.mark.quick

RECORD = Path(__file__).parent / "golden" / "trajectories.json"
REMAKE = f"PYTHONPATH=. python tests/{Path(__file__).name}"
SEEDS = (11, 12, 13, 14, 15)
DECISIONS, EVERY = 240, 40
SAME_RULES = "--same-rules"
"""Flag for new records under the same version of the rules: the state has other fields, the battles are the same."""
SHORT = 40
"""Number of decisions for comparisons without a full battle."""
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=8, map_seed=3)
ACTIONS = 100
"""Noise stream of the actions; the simulation uses other streams."""


def fight(td, seeds, decision):
    """Write actions of mechs that walk to the zone, turn to their first contact and fire, with hashed noise."""
    for side, group in enumerate(("blue", "red")):
        seen = td[group, "observation"]
        way = seen["ego"][..., layout.columns(layout.EGO, "path_direction")]
        heat = seen["ego"][..., layout.columns(layout.EGO, "heat")][..., 0]
        contact = seen["contacts"][..., 0, layout.columns(layout.CONTACT, "rel_pos")]
        bearing = torch.where(seen["contacts_mask"][..., 0], contact[..., 1], way[..., 1])
        width = layout.action_width(seen["comms"].shape[-1])
        action = noise.uniform(seeds, 2 * decision + side, ACTIONS, heat.shape[1] * width) * 2 - 1
        action = action.unflatten(1, (-1, width))
        action[..., : Act.STRAFE + 1] = way + 0.5 * action[..., : Act.STRAFE + 1]
        action[..., Act.YAW_RATE] = bearing * 20 + 0.2 * action[..., Act.YAW_RATE]
        action[..., [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY]] += 0.8
        action[..., Act.VENT] += 2 * heat - 2
        action[..., Act.SPECIAL] -= 0.9
        td[group, "action"] = action.clamp(-1, 1)
    return td


def entry(env, b, decision):
    """Return a line of the record: the hash of all bits of battle `b`'s state, and some readable numbers."""
    state, maps, half = env.state, env.sim_model.maps, len(CONFIG.blue)
    mechs, tally, ground, which = state.mechs, state.tally, state.terrain, state.map_id[b]
    changed = (ground.solid[b] ^ maps.solid[which]) | (ground.opaque[b] ^ maps.opaque[which]) | ground.rubble[b]
    alive = mechs.alive[b].int()
    return {
        "decision": decision,
        "hash": digest_of({name: leaf[b] for name, leaf in leaves(state).items()}).hexdigest()[:16],
        "tick": int(state.tick[b]),
        "alive": [int(alive[:half].sum()), int(alive[half:].sum())],
        "shots": int(tally.shots[b].sum()),
        "hits": int(tally.hits[b].sum()),
        "voxels": sum(int(((changed >> z) & 1).sum()) for z in range(31)),
    }


def play(seeds, decisions):
    """Play battles; return the entries of each seed. A finished battle is followed by the next."""
    numbers = torch.tensor(seeds)
    env = EchelonEnv(CONFIG, len(seeds), "cpu", seed=numbers)
    td, entries = env.reset(), {str(seed): [] for seed in seeds}
    for decision in range(1, decisions + 1):
        _, td = env.step_and_maybe_reset(fight(td, numbers, decision))
        if decision % EVERY == 0:
            for b, seed in enumerate(seeds):
                entries[str(seed)].append(entry(env, b, decision))
    return entries


@pytest.fixture(scope="module")
def played():
    return play(SEEDS, DECISIONS)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORD.read_text())["battles"]


@pytest.mark.parametrize("seed", SEEDS)
def test_battle_equals_its_record(played, recorded, seed):
    pairs = zip(played[str(seed)], recorded[str(seed)], strict=True)
    parted = next(((now, then) for now, then in pairs if now["hash"] != then["hash"]), None)
    assert parted is None, (
        f"seed {seed} parts from {RECORD.name} by decision {parted[0]['decision']}: now {parted[0]}, then {parted[1]}. "
        f"If that is meant, remake the record with `{REMAKE}` and say in the commit what changed the battles and why."
    )


def test_recorded_battles_have_combat(recorded):
    assert [len(entries) for entries in recorded.values()] == [DECISIONS // EVERY] * len(SEEDS)
    entries = [entry for of_seed in recorded.values() for entry in of_seed]
    assert len({entry["hash"] for entry in entries}) == len(entries)
    assert max(entry["hits"] for entry in entries) > 90 and min(sum(entry["alive"]) for entry in entries) <= 3
    assert max(entry["voxels"] for entry in entries) > 50


def test_single_battle_equals_battle_in_batch(played):
    seed = SEEDS[2]
    assert play((seed,), SHORT)[str(seed)] == played[str(seed)][: SHORT // EVERY]


@pytest.mark.long
def test_two_threads_play_the_same_battles(played):
    """Slow on shared cores, because threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        entries = play(SEEDS, SHORT)
    finally:
        torch.set_num_threads(threads)
    assert entries == {seed: found[: SHORT // EVERY] for seed, found in played.items()}


def test_record_has_current_rules_version():
    told = json.loads(RECORD.read_text())["rules_version"]
    assert told == RULES_VERSION, f"{RECORD.name} is of rules version {told}, remake it with `{REMAKE}`"


@pytest.mark.parametrize("flags", [(), (SAME_RULES,)])
def test_changed_battles_need_a_new_rules_version(monkeypatch, tmp_path, recorded, flags):
    record = tmp_path / RECORD.name
    record.write_text(RECORD.read_text())
    changed = {seed: [{**entries[0], "hits": 0}, *entries[1:]] for seed, entries in recorded.items()}
    if not flags:
        with pytest.raises(SystemExit, match="raise RULES_VERSION"):
            remake(changed, record, *flags)
    monkeypatch.setattr(f"{__name__}.RULES_VERSION", RULES_VERSION + (not flags))
    remake(changed, record, *flags)
    whole = json.loads(RECORD.read_text())["fingerprint"]
    assert json.loads(record.read_text()) == {"rules_version": RULES_VERSION, "fingerprint": whole, "battles": changed}


def as_text(entries):
    """Return the record as JSON, one entry a line."""
    battles = [
        f'  "{seed}": [\n' + ",\n".join(f"   {json.dumps(entry)}" for entry in found) + "\n  ]"
        for seed, found in entries.items()
    ]
    head = f'"rules_version": {RULES_VERSION},\n "fingerprint": "{fingerprint()}"'
    return f"{{\n {head}," + '\n "battles": {\n' + ",\n".join(battles) + "\n }\n}\n"


def remake(entries, record=RECORD, *flags):
    """Write a new record."""
    told = json.loads(record.read_text()) if record.exists() else {}
    if told.get("rules_version") == RULES_VERSION and told["battles"] != entries and SAME_RULES not in flags:
        why = f"battles differ from those of rules version {RULES_VERSION}: raise RULES_VERSION in rules/versions.py"
        sys.exit(f"{why}, or, if only what the state holds has changed, say {SAME_RULES}")
    record.write_text(as_text(entries))


if __name__ == "__main__":
    remake(play(SEEDS, DECISIONS), RECORD, *sys.argv[1:])
    sys.stdout.write(RECORD.read_text())
