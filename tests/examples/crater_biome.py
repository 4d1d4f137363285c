"""A custom biome: craters full of lava between low walls of glass.

python tests/examples/crater_biome.py --preset quick --env.world.biomes craters barrens
"""

import echelon
from echelon.pipelines import train
from echelon.rules.catalog import Material
from echelon.world.stamps import Part, box, disc, paint

CRATER = disc(
    14, 0.9, (6, 9), (2, 2), Part(Material.SOLID, grow=1), Part(Material.AIR, bottom=1), Part(Material.LAVA, top=1)
)
WALL = box((11, 9), 0.6, (5, 8), (1, 1), (2, 3), Part(Material.GLASS))


def craters(material, where, seeds, world):
    """Place walls, then craters that break them; each stamp uses its own random stream."""
    for number, stamp in enumerate((WALL, CRATER)):
        paint(material, stamp, where, seeds, number, world)


echelon.register_biome("craters", craters)

if __name__ == "__main__":
    train.program()
