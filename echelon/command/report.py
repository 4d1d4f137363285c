"""Reports about battles to a commander, as JSON values for a program, or in plain English for a reader."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from echelon.env.orders.issue import known_enemies, middle, pack_span
from echelon.rules.orders import Discipline, OrderField, OrderKind
from echelon.sim.model import SimModel
from echelon.state import State

AT_PLACE = ("move", "attack", "defend", "screen")
"""Kinds of orders whose position appears in the plain-English report."""
FIRE_WORDS = {"free": "", "return": ", returning fire only,", "hold": ", holding fire,"}
DRAW = "nobody"
"""Value of `won_by` for a draw. It is part of the protocol of Echelon 1.0, so the word stays."""
WINNERS = ("own", "enemy", DRAW)
Report = dict[str, Any]
"""Report of one battle as JSON values; `docs/COMMAND.md` lists its fields."""


def reports(state: State, sim_model: SimModel, is_red: list[bool], names: list[str]) -> list[Report]:
    """Return a report about each battle for the commander of a team.

    The values of all battles are copied from the device at once.

    Args:
        is_red: for each battle, whether the report is for red's commander.
        names: names of all mechs, blue's first.
    """
    numbers = read(state, sim_model)
    return [one_report(number, numbers, sim_model, red, names) for number, red in enumerate(is_red)]


def read(state: State, sim_model: SimModel) -> Mapping[str, Any]:
    """Return the reported numbers of all B battles on the host, as nested lists keyed by name."""
    leaves = {**numbers_of(state, sim_model), "known": known_enemies(state, sim_model)}
    return {name: leaf.to(torch.float64).cpu().tolist() for name, leaf in leaves.items()}


def numbers_of(state: State, sim_model: SimModel, battles: slice = slice(None)) -> dict[str, Tensor]:
    """Return the values that reports need for the selected battles, as device tensors `[B, ...]` keyed by name.

    Values about orders are missing if orders are disabled.
    """
    mechs, maps, map_id = state.mechs, sim_model.maps, state.map_id[battles]
    numbers = {
        "pos": mechs.pos[battles, :, :2],
        "hp": mechs.hp[battles] / sim_model.roster.hp,
        "heat": mechs.heat[battles] / sim_model.roster.heat_cap,
        "under_fire": mechs.under_fire[battles],
        "tick": state.tick[battles],
        "score": state.score[battles],
        "control": state.control[battles],
        "zone": maps.zone_center[map_id],
        "radius": maps.zone_radius[map_id],
        "middle": middle(state, sim_model)[battles],
    }
    if sim_model.config.command.enabled:
        numbers |= {"sent": state.orders_sent[battles, 0], "heard": state.orders_heard[battles]}
    return numbers


def one_report(battle: int, numbers: Mapping[str, Any], sim_model: SimModel, is_red: bool, names: list[str]) -> Report:
    rules, roster, command = sim_model.rules, sim_model.roster, sim_model.config.command
    own_team, enemy_team = ("red", "blue") if is_red else ("blue", "red")
    my_side, enemy_side = int(is_red), 1 - int(is_red)
    values = {name: values[battle] for name, values in numbers.items()}
    first, last = pack_span(sim_model)[own_team]
    enemies = range(*roster.teams[enemy_team].indices(roster.num_mechs))
    visible = [n for n in enemies if values["known"][my_side][n]]
    return {
        "battle": battle,
        "team": own_team,
        "time_s": round(values["tick"] * rules.dt_s, 1),
        "ends_s": rules.max_episode_s,
        "next_orders_s": round(command.period * rules.decision_s, 1),
        "map": [int(side) for side in sim_model.config.world.size[:2]],
        "zone": {"place": rounded(values["zone"]), "radius": round(values["radius"], 1)},
        "score_s": {
            "own": round(values["score"][my_side], 1),
            "enemy": round(values["score"][enemy_side], 1),
            "to_win": rules.zone_score_to_win_s,
        },
        "control": {"own": values["control"][my_side] > 0, "enemy": values["control"][enemy_side] > 0},
        "packs": [pack_report(pack - first, pack, values, sim_model, names) for pack in range(first, last)],
        "enemies": [{"name": names[n], "hull": roster.hulls[n], "place": rounded(values["pos"][n])} for n in visible],
    }


def pack_report(number: int, pack: int, values: Mapping[str, Any], sim_model: SimModel, names: list[str]) -> Report:
    """Return the report about one pack: its position, its last order, and the state of its mechs."""
    roster = sim_model.roster
    span = roster.packs[pack]
    members = range(span.start, span.stop)
    mechs = [
        {
            "name": names[n],
            "hull": roster.hulls[n],
            "place": rounded(values["pos"][n]),
            "hp": round(values["hp"][n], 2),
            "heat": round(values["heat"][n], 2),
            "under_fire": values["under_fire"][n] > 0,
            "heard": values["heard"][n][OrderField.ISSUED] == values["sent"][pack][OrderField.ISSUED] >= 0,
        }
        for n in members
        if values["hp"][n] > 0
    ]
    return {
        "pack": number,
        "place": rounded(values["middle"][pack]),
        "alive": len(mechs),
        "of": len(members),
        "order": standing_order(values["sent"][pack], values["tick"], sim_model, names),
        "mechs": mechs,
    }


def standing_order(sent: list[float], tick: float, sim_model: SimModel, names: list[str]) -> Report | None:
    """Return the last order that was sent to a pack, as JSON values; None before the first order."""
    if sent[OrderField.ISSUED] < 0:
        return None
    target = int(sent[OrderField.TARGET])
    return {
        "kind": OrderKind(int(sent[OrderField.KIND])).name.lower(),
        "place": rounded(sent[OrderField.X : OrderField.Y + 1]),
        "target": names[target] if target >= 0 else None,
        "urgency": round(sent[OrderField.URGENCY], 2),
        "fire": Discipline(int(sent[OrderField.DISCIPLINE])).name.lower(),
        "age_s": round((tick - sent[OrderField.ISSUED]) * sim_model.rules.dt_s, 1),
    }


def rounded(place: list[float]) -> list[float]:
    return [round(axis, 1) for axis in place]


def in_words(report: Report) -> str:
    """Return a report as plain English text, for a person or a language model."""
    zone, score = report["zone"], report["score_s"]
    east, north = report["map"]
    time_s, ends_s = report["time_s"], report["ends_s"]
    lines = [
        f"You command {report['team']} on a map of {east} by {north} metres; x grows to the east, y to the north. "
        f"{time_s:g} s have passed, the battle ends at {ends_s:g} s.",
        f"The zone is at ({place_of(zone)}), {zone['radius']:g} m around. You hold {score['own']:g} s of the "
        f"{score['to_win']:g} s that win, the enemy {score['enemy']:g} s. {control_of(report['control'])}",
    ]
    for pack in report["packs"]:
        lines.append(pack_in_words(pack, zone["place"]))
    contacts = [f"{contact['name']} ({contact['hull']}) at ({place_of(contact)})" for contact in report["enemies"]]
    lines.append(f"Enemies you know of: {', '.join(contacts)}." if contacts else "You know of no enemy.")
    return "\n".join(lines)


def pack_in_words(pack: Report, zone: list[float]) -> str:
    """Return one sentence about a pack: its position, its last order and its mechs."""
    if not pack["alive"]:
        return f"Pack {pack['pack']} is lost."
    mechs = ", ".join(
        f"{mech['name']} ({mech['hull']}, {mech['hp']:.0%} hp{', under fire' if mech['under_fire'] else ''})"
        for mech in pack["mechs"]
    )
    distance = ((pack["place"][0] - zone[0]) ** 2 + (pack["place"][1] - zone[1]) ** 2) ** 0.5
    position = f"Pack {pack['pack']} is at ({place_of(pack)}), {distance:.0f} m from the middle of the zone"
    order = pack["order"]
    if order is None:
        return f"{position}, without orders: {mechs}."
    num_heard = sum(mech["heard"] for mech in pack["mechs"])
    target = f" {order['target']}" if order["target"] else f" ({place_of(order)})" if order["kind"] in AT_PLACE else ""
    status = (
        f"told to {order['kind']}{target}{FIRE_WORDS[order['fire']]} {order['age_s']:g} s ago, "
        f"which {num_heard} of {pack['alive']} have heard"
    )
    return f"{position}, {status}: {mechs}."


def place_of(row: Report) -> str:
    return ", ".join(f"{axis:g}" for axis in row["place"])


def control_of(control: Report) -> str:
    if control["own"] and control["enemy"]:
        return "Both teams stand in it."
    return "You stand in it." if control["own"] else "The enemy stands in it." if control["enemy"] else "It is empty."
