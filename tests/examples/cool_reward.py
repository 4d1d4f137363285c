"""A custom reward term: reward mechs that fired for low heat.

python pipelines/train.py --extra-reward tests.examples.cool_reward:stays_cool=0.1
python pipelines/train.py --extra-reward tests.examples.cool_reward:stays_cool=0.1..0
"""


def stays_cool(before, after, ending, sim_model):
    """Return `[B, N]`: the free fraction of the heat capacity of living mechs that fired in this decision, else 0."""
    fired = (after.tally.shots > before.tally.shots).any(-1)
    left = 1 - after.mechs.heat / sim_model.roster.heat_cap
    return fired * after.mechs.alive * left.clamp(0, 1)
