#!/usr/bin/env bash
# Guess: quantize_dynamic makes the file of a recurrent policy about four times smaller, for LSTM and GRU alike.
# Seen: a GRU stays in 32 bits. An LSTM file of torch's former exporter shrinks to a quarter; a file of the present one
#   (dynamo=True, the default) does not: its graph makes the weights by Slice and Concat, and only weights that are
#   constants are quantized. There is no warning; a new file is written, as large as the old one.
# Versions: onnxruntime 1.32.0, onnx 1.23.2, onnxscript 0.7.2, torch 2.13.0, Python 3.11 (2026-11-30).
# Hurt: policies for small devices: the "quantized" file is not, and a test of its accuracy passes for that reason.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$work"
"$work/v/bin/python" -W ignore - << 'END'
import os
import sys

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

ratios, kinds = {}, {}
for kind in ("LSTM", "GRU"):
    layer = getattr(torch.nn, kind)(64, 256).eval()
    for dynamo in (True, False):
        options = {"dynamo": True, "external_data": False, "verbose": False} if dynamo else {"dynamo": False}
        torch.onnx.export(layer, (torch.randn(5, 2, 64),), "float.onnx", **options)
        quantize_dynamic("float.onnx", "int8.onnx", weight_type=QuantType.QInt8)
        ratios[kind, dynamo] = os.path.getsize("float.onnx") / os.path.getsize("int8.onnx")
        nodes = {node.op_type for node in onnx.load("int8.onnx").graph.node}
        kinds[kind, dynamo] = sorted(nodes & {"LSTM", "GRU", "DynamicQuantizeLSTM"})
for key, ratio in ratios.items():
    print(f"{key[0]}, dynamo={key[1]}: {ratio:.2f} times smaller, nodes {kinds[key]}")
small = {key for key, ratio in ratios.items() if ratio > 3}
holds = small == {("LSTM", False)} and all(ratio > 3 or ratio < 1.01 for ratio in ratios.values())
print("only the LSTM of the former exporter is quantized:", holds)
sys.exit(not holds)
END
