"""A battle as glTF, read back by a reader of a few lines, by pygltflib and by trimesh."""

import json
import struct

import numpy as np
import pytest
from exported import COURSES, small_course
from scenes import AIR, LIGHT, REINFORCED, small_ground

from echelon.viewer.exporters import gltf
from echelon.viewer.exporters.ground_mesh import ground_meshes

DTYPES = {5126: np.float32, 5125: np.uint32}


def contents(data: bytes) -> tuple[dict, bytes]:
    """The JSON and the buffer of a GLB file."""
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data)) and length % 4 == 0
    text_length, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON" and text_length % 4 == 0
    length, kind = struct.unpack_from("<I4s", data, 20 + text_length)
    assert kind == b"BIN\0" and 28 + text_length + length == len(data)
    return json.loads(data[20 : 20 + text_length]), data[28 + text_length :]


def numbers(document: dict, buffer: bytes, index: int) -> np.ndarray:
    """The values of an accessor, held against its bounds."""
    accessor = document["accessors"][index]
    view = document["bufferViews"][accessor["bufferView"]]
    data = np.frombuffer(buffer[view["byteOffset"] :][: view["byteLength"]], DTYPES[accessor["componentType"]])
    columns = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
    values = data.reshape(accessor["count"], columns)
    if "min" in accessor:
        assert values.min(0).tolist() == accessor["min"] and values.max(0).tolist() == accessor["max"]
    return values


def tracks(document: dict, buffer: bytes) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Times and values of the animation, by the name of the node and by what moves."""
    (animation,) = document["animations"]
    found: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for channel in animation["channels"]:
        sampler = animation["samplers"][channel["sampler"]]
        assert {"min", "max"} <= document["accessors"][sampler["input"]].keys()
        times, values = (numbers(document, buffer, sampler[name]) for name in ("input", "output"))
        node = document["nodes"][channel["target"]["node"]]["name"]
        found.setdefault(node, {})[channel["target"]["path"]] = times[:, 0], values
    return found


@pytest.fixture(params=COURSES)
def course(request):
    return COURSES[request.param]()


def written(course, tmp_path):
    gltf.write(course, tmp_path / "battle.glb")
    return contents((tmp_path / "battle.glb").read_bytes())


def test_gltf_positions_and_times_are_exact_and_y_is_up(course, tmp_path):
    found = tracks(*written(course, tmp_path))
    shots = [name for name in found if name.startswith(("shot ", "beam "))]
    assert len(found) - len(shots) == len(course.mechs)
    for n, mech in enumerate(course.mechs):
        times, places = found[f"{course.name(n)} {mech['hull']}"]["translation"]
        assert times.tolist() == [float(np.float32(float(course.seconds(k)))) for k in course.moments]
        x, y, z = course.positions[:, n].T
        assert (places == np.stack((x, z, -y), -1)).all()


def test_gltf_shots_fly_along_their_waypoints_and_are_hidden_otherwise(course, tmp_path):
    found = tracks(*written(course, tmp_path))
    shots = {f"shot {one.number} {one.weapon}": (one.start, one.end, one.points) for one in course.flights()}
    for number, row in enumerate(course.rows("beams")):
        ends = np.array([[row[f"{axis}{end}"] / 64 for axis in "xyz"] for end in "01"])
        shots[f"beam {number} {course.weapon(row['weapon'])}"] = row["tick"], row["tick"] + 1, ends
    assert set(shots) == {name for name in found if name.startswith(("shot ", "beam "))} != set()
    dt_s = course.about["dt_s"]
    for name, (start, end, points) in shots.items():
        times, places = found[name]["translation"]
        assert (places == points[:, [0, 2, 1]] * (1, 1, -1)).all()
        assert times == pytest.approx(np.linspace(start * dt_s, end * dt_s, len(points)), abs=1e-4)
        assert (np.diff(times) > 0).all()
        times, sizes = found[name]["scale"]
        is_flying = (times >= np.float32(start * dt_s) - 1e-5) & (times < np.float32(end * dt_s) - 1e-5)
        assert times[0] == 0 and (np.diff(times) > 0).all()
        assert ((sizes > 0).all(1) == is_flying).all() and is_flying.sum() == 1


def turned(quaternions: np.ndarray) -> np.ndarray:
    """`[rows, 3]` where +x of a node points, by quaternions x, y, z, w."""
    x, y, z, w = quaternions.T
    return np.stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)), -1)


def test_gltf_mechs_face_their_yaw_and_turn_the_short_way(course, tmp_path):
    found = tracks(*written(course, tmp_path))
    for n, mech in enumerate(course.mechs):
        _, rotations = found[f"{course.name(n)} {mech['hull']}"]["rotation"]
        yaw = course.battle.yaw[:, n] / 8192
        facing = np.stack((np.cos(yaw), np.zeros_like(yaw), -np.sin(yaw)), -1)
        assert turned(rotations) == pytest.approx(facing, abs=1e-5)
        assert ((rotations[1:] * rotations[:-1]).sum(-1) > 0).all()


def test_gltf_hides_a_mech_after_its_death(tmp_path):
    course = small_course()
    times, sizes = tracks(*written(course, tmp_path))["red 2 light"]["scale"]
    width, length, height = course.mechs[LIGHT]["size"]
    assert sizes[times < 4.0] == pytest.approx(np.tile((width, height, length), (16, 1)))
    assert (sizes[times >= 4.0] == 0).all()


def brute_force_faces(ground: np.ndarray) -> dict[int, int]:
    """How many faces of each material are free, voxel by voxel."""
    count: dict[int, int] = {}
    for z, y, x in np.argwhere(ground != AIR).tolist():
        for step in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)):
            cell = (z + step[0], y + step[1], x + step[2])
            is_outside = not all(0 <= at < side for at, side in zip(cell, ground.shape, strict=True))
            if cell[0] >= 0 and (is_outside or ground[cell] == AIR):
                count[ground[z, y, x]] = count.get(ground[z, y, x], 0) + 1
    return count


def test_ground_mesh_has_the_free_faces_of_each_material():
    ground = small_ground()
    found = {material: len(triangles) for material, _, triangles in ground_meshes(ground)}
    assert found == {material: 2 * faces for material, faces in brute_force_faces(ground).items()}


def test_ground_mesh_faces_outward():
    ground = np.zeros((3, 4, 5), np.uint8)
    ground[1, 2, 3] = REINFORCED
    ((material, corners, triangles),) = ground_meshes(ground)
    a, b, c = (corners[triangles[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a)
    outward = (a + b + c) / 3 - (3.5, 2.5, 1.5)
    assert material == REINFORCED and len(triangles) == 12 and ((normals * outward).sum(-1) > 0).all()
    assert corners.min(0).tolist() == [3, 2, 1] and corners.max(0).tolist() == [4, 3, 2]


@pytest.mark.integrations
def test_pygltflib_reads_the_tracks(tmp_path):
    pygltflib = pytest.importorskip("pygltflib", exc_type=ImportError)
    course = small_course()
    gltf.write(course, tmp_path / "battle.glb")
    found = pygltflib.GLTF2().load(str(tmp_path / "battle.glb"))
    buffer = found.binary_blob()
    (animation,) = found.animations
    flights = {f"shot {flight.number} {flight.weapon}": flight for flight in course.flights()}
    checked = 0
    for channel in (one for one in animation.channels if one.target.path == "translation"):
        sampler, node = animation.samplers[channel.sampler], found.nodes[channel.target.node]
        accessor = found.accessors[sampler.output]
        view = found.bufferViews[accessor.bufferView]
        places = np.frombuffer(buffer, np.float32, accessor.count * 3, view.byteOffset).reshape(-1, 3)
        if node.name in flights:
            assert (places == flights[node.name].points[:, [0, 2, 1]] * (1, 1, -1)).all()
            checked += 1
        if node.name.startswith(("shot ", "beam ")):
            continue
        n = [f"{course.name(n)} {mech['hull']}" for n, mech in enumerate(course.mechs)].index(node.name)
        assert (places == course.positions[:, n][:, [0, 2, 1]] * (1, 1, -1)).all()
    assert checked == len(flights) > 0
    shots = len(course.battle.flights) + len(course.battle.beams)
    assert len(animation.channels) == 3 * len(course.mechs) + 2 * shots


@pytest.mark.integrations
def test_trimesh_reads_the_terrain_and_the_first_pose(tmp_path):
    trimesh = pytest.importorskip("trimesh", exc_type=ImportError)
    course = small_course()
    gltf.write(course, tmp_path / "battle.glb")
    scene = trimesh.load_scene(tmp_path / "battle.glb")
    for n, mech in enumerate(course.mechs):
        matrix, _ = scene.graph[f"{course.name(n)} {mech['hull']}"]
        assert matrix[:3, 3].tolist() == gltf.upright(course.positions[0, n]).tolist()
    low, high = scene.geometry["dirt"].bounds
    assert low.tolist() == [0, 0, -20] and high.tolist() == [24, 1, 0]
    assert trimesh.Trimesh(*gltf.mech_box()).volume == pytest.approx(1 + 0.3**3)
