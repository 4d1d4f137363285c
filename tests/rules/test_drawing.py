"""Terrain drawn as rows of text gives the same boxes, and errors contain the row."""

import pytest
import torch

from echelon import Box, Scene
from echelon.rules.scenario import boxes_from_json, scenario_from_json
from echelon.runtime.errors import ConfigError
from echelon.world.authored_maps import ground_of

ROWS = ["##.##", "#x..#", "#x~.#", "##.##"]
GLASS = {"x": {"material": "glass", "height": 2}}
UNITS = [{"team": "blue", "hull": "light", "x": 5, "y": 20}, {"team": "red", "hull": "light", "x": 35, "y": 20}]


def ground(scenario):
    return ground_of(scenario.position, scenario.settings.world)


def test_drawing_gives_the_same_terrain_as_boxes():
    layers = [{"rows": ROWS, "low": [10, 12]}, {"rows": ["##"], "low": [10, 12], "bottom": 5}]
    drawn = scenario_from_json({"layers": layers, "legend": GLASS, "units": UNITS})
    scene = Scene().wall((10, 12), (12, 13), 4).wall((13, 12), (15, 13), 4).wall((10, 15), (12, 16), 4)
    scene.wall((13, 15), (15, 16), 4).wall((10, 13), (11, 15), 4).wall((14, 13), (15, 15), 4)
    scene.wall((11, 13), (12, 15), 2, "glass").wall((12, 13), (13, 14), 1, "water").wall(
        (10, 12), (12, 13), 9, bottom=5
    )
    scene.place("blue", "light", at=(5, 20)).place("red", "light", at=(35, 20))
    assert torch.equal(ground(drawn), ground(scene.scenario)) and set(drawn.boxes) == set(scene.boxes)
    alike = Scene().draw(ROWS, GLASS, (10, 12)).draw(["##"], low=(10, 12), bottom=5)
    assert tuple(alike.boxes) == drawn.boxes
    assert scenario_from_json(drawn.as_json()) == drawn, "a file that is saved holds the boxes"


def test_every_character_fills_its_columns():
    """Random rows give the voxels of the legend, and one box for a rectangle."""
    generator = torch.Generator().manual_seed(2)
    code = torch.randint(0, 4, (40, 40), generator=generator)
    rows = ["".join(".#=~"[one] for one in row) for row in code.flip(0).tolist()]
    boxes = boxes_from_json([{"rows": rows}], {}, "it")
    material = torch.zeros(40, 40, dtype=torch.int64)
    for box in boxes:
        (x0, y0, _), (x1, y1, top) = box.low, box.high
        assert (material[y0:y1, x0:x1] == 0).all() and top == (1 if box.material == "water" else 4)
        material[y0:y1, x0:x1] = ["", "solid", "reinforced", "water"].index(box.material)
    assert torch.equal(material, code)
    assert boxes_from_json([{"rows": ["###"] * 5}], {}, "it") == (Box((0, 0, 0), (3, 5, 4)),)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"layers": 3}, r"^it.layers must be a list, got 3$"),
        ({"layers": [{}]}, r"^it.layers\[0\] must be complete: this Layer lacks rows"),
        ({"layers": [{"rows": []}]}, r"^it.layers\[0\].rows must be 1..500 rows, got 0$"),
        ({"layers": [{"rows": ["#"] * 501}]}, r"^it.layers\[0\].rows must be 1..500 rows, got 501$"),
        (
            {"layers": [{"rows": ["##", "#"]}]},
            r"^it.layers\[0\].rows\[1\] must be 2 characters long, like the first row, got 1$",
        ),
        (
            {"layers": [{"rows": ["#", "%"]}]},
            r"^it.layers\[0\].rows\[1\] must be made of characters in ' #\*.=~', got '%'$",
        ),
        ({"layers": [{"rows": ["#"], "low": [1]}]}, r"^it.layers\[0\].low must be x, y, got \(1,\)$"),
        ({"layers": [{"rows": ["#"], "low": [-1, 0]}]}, r"^it.layers\[0\]: Box.low must be 0..500 vox, got -1$"),
        ({"layers": [{"rows": ["#" * 41]}]}, r"^Box.high must be within the map of \(40, 40, 16\) vox"),
        ({"layers": [{"rows": ["#"], "bottom": 13}]}, r"^Box.high must be within the map of \(40, 40, 16\) vox"),
        (
            {"layers": [{"rows": ["#."] * 20 + [".#"] * 20, "top": 1}]},
            r"^it.layers\[0\].top must be one of rows, low, bottom",
        ),
        ({"legend": []}, r"^it.legend must be an object of rows keyed by name, got \[\]$"),
        ({"legend": {"ab": {}}}, r"^it.legend must be keyed by single characters, got 'ab'$"),
        ({"legend": {"a": {"material": 1}}}, r"^it.legend.a.material must be a str, got 1$"),
        ({"layers": [{"rows": ["a"]}], "legend": {"a": {"height": 0}}}, r"^it.layers\[0\]: Box.high must be above"),
        ({"layers": [{"rows": ["a"]}], "legend": {"a": {"material": "os"}}}, r"^it.layers\[0\]: Box.material must be"),
        ({"layers": [{"rows": ["#.#." * 10, ".#.#" * 10] * 20}] * 6}, r"^Scenario.boxes must be at most 4000 entries"),
    ],
)
def test_invalid_drawing_is_rejected_in_one_line(values, said):
    with pytest.raises(ConfigError, match=said) as raised:
        scenario_from_json({"units": UNITS, **values}, "it")
    assert "\n" not in str(raised.value)
