#!/usr/bin/env bash
# Guess: the reference evaluator of ONNX and ONNX Runtime agree on LSTM and GRU with sequence_lens, and a sequence of
#   length 0 leaves its state as it was.
# Seen: the reference evaluator ignores sequence_lens without a warning: outputs past the end are not zero, and the
#   last state is that after the padding. ONNX Runtime stops at the end, but of a sequence of length 0 it returns a
#   state of zeros.
# Versions: onnx 1.23.2, onnxruntime 1.32.0, numpy 2.4.6, Python 3.11 (2026-11-30).
# Hurt: exports of recurrent policies that are checked against the reference; and agents that have no step in a batch
#   (length 0): their memory is wiped.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
"$work/v/bin/python" -W ignore - << 'END'
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

STEPS, BATCH, INPUT, HIDDEN = 4, 3, 2, 5
random, holds = np.random.default_rng(0), True


def normal(*shape):
    return random.normal(size=shape).astype(np.float32)


for kind, gates in (("LSTM", 4), ("GRU", 3)):
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    shapes = {"W": (1, gates * HIDDEN, INPUT), "R": (1, gates * HIDDEN, HIDDEN), "B": (1, 2 * gates * HIDDEN)}
    weights = [numpy_helper.from_array(normal(*shape), name) for name, shape in shapes.items()]
    outputs = ["Y", *(f"Y_{name}" for name in states)]
    node = helper.make_node(kind, ["X", "W", "R", "B", "lengths", *states], outputs, hidden_size=HIDDEN)
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, (STEPS, BATCH, INPUT))]
    inputs += [helper.make_tensor_value_info("lengths", TensorProto.INT32, (BATCH,))]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, BATCH, HIDDEN)) for name in states]
    told = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "policy", inputs, told, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {"X": normal(STEPS, BATCH, INPUT), **{name: normal(1, BATCH, HIDDEN) for name in states}}
    session, reference = onnxruntime.InferenceSession(model.SerializeToString()), ReferenceEvaluator(model)
    full, cut = np.full(BATCH, STEPS, np.int32), np.array([4, 2, 0], np.int32)
    runs = {(name, n): way.run(None, {**feed, "lengths": lengths})
            for name, way in (("runtime", session), ("reference", reference))
            for n, lengths in (("full", full), ("cut", cut))}
    agree = {n: float(max(np.abs(a - b).max() for a, b in zip(runs["runtime", n], runs["reference", n])))
             for n in ("full", "cut")}
    ignored = all(np.array_equal(a, b) for a, b in zip(runs["reference", "full"], runs["reference", "cut"]))
    ends = runs["runtime", "cut"]
    at_end = float(np.abs(ends[1][0, 1] - runs["runtime", "full"][0][1, 0, 1]).max())
    wiped = not ends[1][0, 2].any()
    print(f"{kind}: difference {agree}; the reference ignores lengths {ignored}; the runtime's state of length 2 is that "
          f"after step 2 {at_end < 1e-6}, of length 0 zeros {wiped}")
    holds &= agree["full"] < 1e-5 and agree["cut"] > 0.1 and ignored and at_end < 1e-6 and wiped
print("the reference ignores sequence_lens, and a sequence of length 0 loses its state:", holds)
sys.exit(not holds)
END
