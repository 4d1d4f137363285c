#!/usr/bin/env bash
# Guess: torch.export keeps the inputs of a program apart, also where one tensor of zeros is the example of two of
#   them.
# Seen: with the same zeros as example of h and c of an LSTM, the exported program ignores h and reads c for both, and
#   so does the ONNX file of torch.onnx.export. Nothing warns, and the example itself gives the right output.
#   torch.jit.trace, the former ONNX exporter (dynamo=False) and two equal tensors in place of one are right.
# Versions: torch 2.13.0, onnx 1.23.2, onnxscript 0.7.2, onnxruntime 1.32.0, Python 3.11 (2026-11-30).
# Hurt: exporters of recurrent policies: the first decision of an episode agrees with the policy, all later ones do
#   not.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$work"
"$work/v/bin/python" -W ignore - << 'END'
import sys

import onnxruntime
import torch


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 16, batch_first=True)

    def forward(self, observation, h, c):
        output, (h, c) = self.lstm(observation, (h, c))
        return output, h, c


def onnx(policy, example, inputs, dynamo):
    torch.onnx.export(policy, example, "policy.onnx", dynamo=dynamo, verbose=False)
    session = onnxruntime.InferenceSession("policy.onnx")
    names = [item.name for item in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, (value.numpy() for value in inputs))))[0])


torch.manual_seed(0)
policy, zeros = Policy().eval(), torch.zeros(1, 3, 16)
observation = torch.randn(3, 5, 8)
later = (observation, torch.randn(1, 3, 16), torch.randn(1, 3, 16))
errors = {}
with torch.no_grad():
    for label, example in (("same", (observation, zeros, zeros)), ("two", (observation, zeros, zeros.clone()))):
        ways = {
            "export": lambda inputs: torch.export.export(policy, example).module()(*inputs)[0],
            "onnx": lambda inputs: onnx(policy, example, inputs, dynamo=True),
            "former onnx": lambda inputs: onnx(policy, example, inputs, dynamo=False),
            "trace": lambda inputs: torch.jit.trace(policy, example)(*inputs)[0],
        }
        for name, way in ways.items():
            errors[name, label] = [float((way(inputs) - policy(*inputs)[0]).abs().max()) for inputs in (example, later)]
for (name, label), (first, rest) in errors.items():
    print(f"{name}, {label} tensor(s): error {first:.6f} on the example, {rest:.6f} on later states")
wrong = {key for key, (first, rest) in errors.items() if rest > 0.01}
holds = wrong == {("export", "same"), ("onnx", "same")} and all(first < 1e-5 for first, _ in errors.values())
print("a tensor used as example of two inputs makes one input of them:", holds)
sys.exit(not holds)
END
