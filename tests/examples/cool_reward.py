"""A reward term of one's own: mechs that fired are paid for staying cool, from which their weapons profit.

python pipelines/train.py --extra-reward tests.examples.cool_reward:stays_cool=0.1
python pipelines/train.py --extra-reward tests.examples.cool_reward:stays_cool=0.1..0
"""


def stays_cool(before, after, ending, sim_model):
    """`[B, N]`: the share of the heat capacity that is left, where a mech fired in this decision and lives."""
    fired = (after.tally.shots > before.tally.shots).any(-1)
    left = 1 - after.mechs.heat / sim_model.roster.heat_cap
    return fired * after.mechs.alive * left.clamp(0, 1)
