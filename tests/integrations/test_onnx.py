"""An exported ONNX file computes the same actions as its policy."""

import json
import re

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import onnxruntime
import torch
from battles import SHORT
from leagues import policy_of
from tiny_runs import TINY

import echelon
from echelon.env.describe.columns import describe_battle
from echelon.learn.models.export import export_onnx
from echelon.learn.models.registry import model_with
from echelon.pipelines.export import Export

pytestmark = pytest.mark.integrations


def decided(session, inputs):
    """Return the outputs of the file for named inputs."""
    given = {name: value.numpy() for name, value in inputs.items()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(torch.as_tensor, session.run(None, given)), strict=True))


def inputs_of(td):
    """Return the inputs of the mechs of a batch, one row per mech, keyed by the input names of the file."""
    observed = {f"observation.{name}": value for name, value in td["observation"].items() if name != "mask"}
    remembered = {f"memory.{name}": value for name, value in td.get("memory", {}).items()}
    flat = {**observed, "telemetry": td["telemetry"], **remembered}
    return {name: value.flatten(0, 1).contiguous() for name, value in flat.items()}


@pytest.mark.parametrize(("kind", "actions"), [("lstm", "sampled"), ("gru", "mean"), ("mlp", "mean")])
def test_onnx_file_matches_policy(tmp_path, kind, actions):
    """Over six decisions with memory, and another number of mechs than in the trace."""
    policy, path = policy_of(1, model_with(kind, TINY)), tmp_path / "policy.onnx"
    export_onnx(policy, SHORT, path, actions)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    memory = policy.memory_spec()
    view = echelon.mechs(SHORT, "heuristic:easy", 2, "cpu", 0, observation="structured", memory=memory)
    td = view.reset()
    for _ in range(6):
        inputs = inputs_of(td)
        noise = torch.randn(*td.shape, 26) * (actions == "sampled")
        with torch.no_grad():
            td = policy(td.set("noise", noise))
        found = decided(session, inputs | ({"noise": noise.flatten(0, 1)} if actions == "sampled" else {}))
        torch.testing.assert_close(found["action"], td["action"].flatten(0, 1), atol=1e-5, rtol=0)
        for name in memory.keys():
            told = found[f"next.memory.{name}"]
            torch.testing.assert_close(told, td["next", "memory", name].flatten(0, 1), atol=1e-5, rtol=0)
        _, td = view.step_and_maybe_reset(td)
    assert found["action"].std() > 0.01


def test_command_writes_onnx_file_with_input_names(tmp_path, capsys):
    name = next(iter(echelon.trained()))
    path = tmp_path / "policy.onnx"
    Export(f"trained:{name}", path).run()
    said = capsys.readouterr().out
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    assert re.findall(r"^in   (\S+) ", said, re.M) == names and [path] == list(tmp_path.iterdir())
    told = {".".join(leaf.key[-2:]) for leaf in describe_battle(echelon.EnvConfig.small())}
    assert {one for one in names if one.startswith("observation")} <= told
    about = session.get_modelmeta().custom_metadata_map
    assert about["policy"] == echelon.trained()[name].sha256 and json.loads(about["rules_version"]) >= 3
