"""One substep, in the order of the rules page."""

from . import body, fire, flight, ground, harm, walk
from .battle import Battle, Draws, Orders
from .senses import is_shut_down


def substep(battle: Battle, orders: list[Orders], draws: Draws) -> None:
    """Advance `battle` by one substep, in place."""
    was_shut_down = {mech.index for mech in battle.mechs if is_shut_down(mech)}
    dealt: harm.Dealt = {}

    body.count_down(battle)
    body.burn(battle, orders)
    body.stand(battle)
    vents = body.cool(battle, orders)

    flight.intercept(battle, draws.ams)
    flights = flight.fly_all(battle)
    harms: harm.Harms = {}
    flight.impact(battle, flights, harms)
    flight.billow(battle, flights)
    ground.chip(battle, flights)
    harm.feel(battle, harms, dealt)

    harms = {}
    fire.fire(battle, orders, vents, draws.beam_height, harms)
    harm.feel(battle, harms, dealt)

    ground.lay_wreck(battle, draws.wreck, draws.priority)
    walk.move(battle, orders, draws.priority)
    for mech in battle.mechs:
        mech.tally.shutdowns += mech.alive and mech.index not in was_shut_down and is_shut_down(mech)
