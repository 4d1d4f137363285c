"""A reader that answers questions about a battle from the report in words alone."""

import math
import re

QUESTIONS = {
    "side": "Which team do I command?",
    "map": "How large is the map?",
    "time": "How many seconds have passed?",
    "left": "How many seconds are left?",
    "zone": "Where is the zone?",
    "radius": "How far does the zone reach?",
    "own score": "How long have I held the zone?",
    "enemy score": "How long has the enemy held it?",
    "to win": "How long must a team hold it to win?",
    "control": "Who stands in the zone?",
    "alive": "How many of my mechs live?",
    "weakest": "What is the lowest hit-point fraction of my mechs?",
    "under fire": "Which of my mechs are under fire?",
    "hulls": "What hull has each of my mechs?",
    "packs": "Where is each pack?",
    "lost": "Which packs are lost?",
    "nearest pack": "How far is the pack nearest to the zone from its middle?",
    "orders": "What is the last order of each pack, with its position or target?",
    "fire": "When may each pack fire?",
    "ages": "How old is each order?",
    "late": "Which packs have an order that has not reached all of their mechs?",
    "enemies": "Which enemies are known, and where?",
    "nearest enemy": "How far is the nearest known enemy from each pack?",
    "enemy hulls": "How many heavy enemies are known?",
}
"""Questions by kind. They were written before the reader."""
NUMBER = r"-?[\d.]+"
PLACE = rf"\(({NUMBER}), ({NUMBER})\)"
MECH = re.compile(r"(\w+_\d+) \((\w+), (\d+)% hp(, under fire)?\)")
ORDER = re.compile(
    rf"told to (\w+)(?: (\w+_\d+)| {PLACE})?(, holding fire,|, returning fire only,)? ({NUMBER}) s ago, "
    r"which (\d+) of (\d+) have heard"
)
ENEMY = re.compile(rf"(\w+_\d+) \((\w+)\) at {PLACE}")
FIRE = {None: "free", ", holding fire,": "hold", ", returning fire only,": "return"}
CONTROL = {
    "Both teams stand in it.": (True, True),
    "You stand in it.": (True, False),
    "The enemy stands in it.": (False, True),
    "It is empty.": (False, False),
}


def answers_of(words):
    """Return an answer to each of `QUESTIONS`, from the words alone."""
    head, zone, *lines = words.splitlines()
    *pack_lines, enemy_line = lines
    side, east, north = re.search(rf"You command (\w+) on a map of ({NUMBER}) by ({NUMBER})", head).groups()
    passed, ends = map(float, re.search(rf"({NUMBER}) s have passed, the battle ends at ({NUMBER}) s", head).groups())
    zone_x, zone_y, radius = map(float, re.search(rf"zone is at {PLACE}, ({NUMBER}) m around", zone).groups())
    scores = re.search(
        rf"You hold ({NUMBER}) s of the ({NUMBER}) s that win, the enemy ({NUMBER}) s\. (.*)", zone
    ).groups()
    packs, lost, orders, mechs = {}, [], {}, []
    for line in pack_lines:
        number = int(re.match(r"Pack (\d+)", line)[1])
        if line.endswith("is lost."):
            lost.append(number)
            continue
        packs[number] = tuple(map(float, re.search(PLACE, line).groups()))
        mechs += MECH.findall(line)
        if (order := ORDER.search(line)) is not None:
            orders[number] = order.groups()
    enemies = {name: (hull, float(x), float(y)) for name, hull, x, y in ENEMY.findall(enemy_line)}
    distances = {number: math.dist(place, (zone_x, zone_y)) for number, place in packs.items()}
    return {
        "side": side,
        "map": (float(east), float(north)),
        "time": passed,
        "left": round(ends - passed, 1),
        "zone": (zone_x, zone_y),
        "radius": radius,
        "own score": float(scores[0]),
        "enemy score": float(scores[2]),
        "to win": float(scores[1]),
        "control": CONTROL[scores[3]],
        "alive": len(mechs),
        "weakest": min(int(hp) for _, _, hp, _ in mechs) if mechs else None,
        "under fire": sorted(name for name, _, _, fired in mechs if fired),
        "hulls": {name: hull for name, hull, _, _ in mechs},
        "packs": packs,
        "lost": lost,
        "nearest pack": round(min(distances.values()), 1) if distances else None,
        "orders": {n: (kind, target, place(x, y)) for n, (kind, target, x, y, *_) in orders.items()},
        "fire": {number: FIRE[order[4]] for number, order in orders.items()},
        "ages": {number: float(order[5]) for number, order in orders.items()},
        "late": [number for number, order in orders.items() if order[6] != order[7]],
        "enemies": {name: (x, y) for name, (_, x, y) in enemies.items()},
        "nearest enemy": {number: nearest(where, enemies) for number, where in packs.items() if enemies},
        "enemy hulls": sum(hull == "heavy" for hull, _, _ in enemies.values()),
    }


def place(x, y):
    return None if x is None else (float(x), float(y))


def nearest(where, enemies):
    """Return the distance of the nearest enemy."""
    return round(min(math.dist(where, enemy[1:]) for enemy in enemies.values()), 1)
