"""Time of a decision in loops: each system alone over the battles of an environment, and the whole decision.

Each system is compiled alone, in a loop over battles like that of `env/loops/decision.py`; the time of the empty loop
is subtracted. The whole is timed in the same run. The rest is the whole less all parts: packing records and new memory,
less cache misses that only occur in parts measured alone. So the rest may be negative.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numba
from measure import once, seconds

from echelon import EchelonEnv
from echelon.env.arguments import joined_actions
from echelon.env.loops import actions, observation, sensing, zone
from echelon.env.loops.decision import BattleArrays, MapArrays, one_battle, one_map, one_shown
from echelon.runtime.jit import OPTIONS, array
from echelon.sim.loops import ams, damage, firing, movement, rubble, shots, step, targeting
from echelon.sim.loops.movement import update_headings
from echelon.sim.loops.packing import fields_of, read
from echelon.sim.loops.records import Ground
from echelon.state import Terrain

SUBSTEP = {
    "update_mechs": "update_mechs(records, orders, hulls, ground, rules, None)",
    "intercept": "intercept(records, slots, hulls, weapons, rules)",
    "fly": "fly(records.shots, slots, weapons, scratch.impacts, mechs, hulls, ground.solid, rules, None)",
    "clear_dealt": "clear_dealt(mechs, scratch.pairs, rules, None)",
    "apply": "apply(mechs, tally, paint, scratch.pairs, hulls, rules)",
    "credit_paint": "credit_paint(mechs, tally, paint, scratch.pairs, hulls, rules)",
    "fire": "find_targets(scratch, ground.opaque, tables, None); fire(scratch, tables)",
    "lay_wrecks": "lay_wrecks(battle, mechs, hulls, ground, rules)",
    "move": "move(mechs, tally, scratch.boxes, orders, hulls, ground, rules, None)",
}
"""Calls of the systems of a substep, with None for the lane. Strikes, clouds and holes are excluded: they need
impacts."""
PREPARED = "prepare_viewers(scratch, hulls, views.cockpits, rules, view, None); "
ONCE = {
    "decode": "decode(action, arrays.focus_slots, orders, tally, hulls, at, rules, None)",
    "score": "score(battle, mechs, tally, hulls, field, view)",
    "sense_pairs": PREPARED + "sense_pairs(ground.opaque, arrays.blocked_at, scratch, streams, rules, None)",
    "observe": "observe(arrays, ground, field, arrays, scratch, tables, views, streams, None)",
}
"""Calls made once a decision; `sense_pairs` and its work for each mech is a part of `observe`."""
LOOP = """
def run(actions, before, rest, maps, tables, views, scratch, shown):
    rules, hulls, weapons, slots = tables.rules[0], tables.hulls, tables.weapons, tables.slots
    view, at, orders, records = views.numbers[0], views.action[0], scratch.orders, scratch.records
    battle, mechs, tally, paint = records.battles[0], records.mechs, records.tally, records.paint
    for b in range(actions.shape[0]):
        read(b, before, records, None)
        update_headings(mechs, scratch.boxes, None)
        action, arrays = actions[b], one_battle(rest, b)
        field, streams = one_map(maps, battle.map_id), one_shown(shown, b)
        now = arrays.solid, arrays.opaque, arrays.rubble, arrays.damage
        ground = Ground(*now, field.material, field.solid, field.opaque, field.hazard)
        {call}
"""


def compiled_alone(call: str) -> Callable[..., None]:
    """Return a loop over battles with one call in it."""
    modules: tuple[Any, ...] = (
        ams,
        damage,
        firing,
        movement,
        rubble,
        shots,
        step,
        targeting,
        actions,
        observation,
        sensing,
        zone,
    )
    names = {name: value for module in modules for name, value in vars(module).items()}
    names |= {"Ground": Ground, "one_battle": one_battle, "one_map": one_map, "one_shown": one_shown, "read": read}
    names |= {"update_headings": update_headings}
    exec(LOOP.format(call=call), names)
    loop: Callable[..., None] = numba.njit(**OPTIONS)(names["run"])
    return loop


def parts(env: EchelonEnv, repeats: int) -> dict[str, float]:
    """Return ms a decision of all battles on one thread, keyed by part; `whole` and `rest` are last."""
    loops, state = env.engine.loops, env.state
    assert loops is not None
    action = joined_actions(env.action_spec.rand(), env.group_map, env.batch_size, env.config.comm_dim)
    before = fields_of(state)
    maps = MapArrays(*(array(getattr(env.sim_model.maps, name)) for name in MapArrays._fields))

    def arguments() -> tuple[Any, ...]:
        state_arrays = {name: getattr(state, name).numpy().copy() for name in ("messages", "focus_slots")}
        ground = {name: getattr(state.terrain, name).numpy().copy() for name in Terrain.__dataclass_fields__}
        copies = BattleArrays(**state_arrays, **ground)
        streams, scratch = loops._streams(*state.messages.shape), loops._scratch(before)
        ready = (array(action), before, copies, maps, loops.tables, loops.views, scratch, streams)
        orders_read(*ready)
        return ready

    orders_read = compiled_alone(ONCE["decode"])

    def alone(call: str) -> float:
        loop, samples = compiled_alone(call), []
        loop(*arguments())
        for _ in range(repeats):
            ready = arguments()
            samples.append(once(lambda ready=ready: loop(*ready), env.device))
        return statistics.median(samples) * 1e3

    nothing, substeps = alone("pass"), env.sim_model.rules.decision_repeat
    times = {name: substeps * (alone(call) - nothing) for name, call in SUBSTEP.items()}
    times["apply"] *= 2
    times |= {name: alone(call) - nothing for name, call in ONCE.items()}
    times["whole"] = seconds(lambda: loops.play(state, action), env.device, repeats) * 1e3
    times["rest"] = times["whole"] - sum(value for name, value in times.items() if name not in ("whole", "sense_pairs"))
    return times
