"""Each observation stream has one home: a file for its columns and dense function, and one for its loop."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torchrl.data import Composite

from echelon.env.loops import stream_arrays
from echelon.env.observation import layout
from echelon.env.observation.streams import registry
from echelon.env.specs import Specs
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.runtime import loop_cache

ENV = Path(registry.__file__).parents[2]
SMALL = EnvConfig.small()
COMMANDED = dataclasses.replace(SMALL, command=CommandConfig(enabled=True))
ALL = (*registry.OF_MECHS, *registry.OF_BATTLES, *registry.OF_COMMANDERS)


def stems(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")} - {"__init__", "registry"}


def test_each_stream_file_is_in_the_registry():
    assert stems(ENV / "observation" / "streams") == {stream.name for stream in ALL}
    names = [name for stream in ALL for name in stream.names]
    assert len(names) == len(set(names))


def test_every_dense_function_has_a_loop_of_the_same_name():
    assert stems(ENV / "loops" / "streams") == {stream.name for stream in stream_arrays.FILLED}
    filled = [stream for stream in registry.OF_MECHS if stream.add is None]
    assert list(stream_arrays.FILLED) == filled and all(stream.dense for stream in filled)


def test_cache_of_loops_follows_the_loops_of_streams_and_the_registry():
    names = {str(path.relative_to(loop_cache.PACKAGE)) for path in loop_cache.SOURCES}
    assert {"env/loops/streams/ego.py", "env/observation/streams/registry.py"} <= names


@pytest.mark.parametrize(
    ("config", "has_commanders", "last"),
    [(SMALL, True, "local_map"), (COMMANDED, True, "order"), (COMMANDED, False, "local_map")],
    ids=["no orders", "orders", "orders that no mech is shown"],
)
def test_specs_list_the_streams_of_the_config(config, has_commanders, last):
    sizes = {"blue": len(config.blue), "red": len(config.red)}
    specs = Specs(config, sizes, Composite(), 2, torch.device("cpu"), has_commanders=has_commanders)
    shown = specs.observation()["blue", "observation"]
    assert list(shown.keys())[: len(layout.STREAMS)] == list(layout.STREAMS) and list(shown.keys())[-1] == last


@pytest.mark.parametrize("comm_dim", [0, 8])
def test_grid_has_an_axis_for_each_side_and_one_column(comm_dim):
    by_name = {stream.name: stream for stream in ALL}
    assert by_name["local_map"].shape(comm_dim, SMALL) == (11, 11)
    assert by_name["telemetry"].shape(comm_dim, SMALL) == (16, 16)
    assert by_name["comms"].shape(comm_dim, SMALL) == (5, comm_dim)
    assert by_name["contacts"].rows(SMALL) == (9,) and by_name["tracks"].rows(2, 7) == (7,)
    assert [ends.tolist() for ends in by_name["local_map"].bounds(comm_dim)] == [[0.0], [1.0]]
    assert [len(ends) for ends in by_name["comms"].bounds(comm_dim)] == [comm_dim, comm_dim]
