"""A program: compile the kernel of a decision for a GPU's compute capability, and report its instructions.

python tests/env/kernel_of_gpu.py MAJOR MINOR [FILE]     # FILE takes the assembly, for `ptxas -v`
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch
from cuda.core import Linker, LinkerOptions, ObjectCode

from echelon.env.env import EchelonEnv
from echelon.env.loops import on_device, play
from echelon.rules.config import EnvConfig
from echelon.runtime import jit
from echelon.runtime.device_loops import assemble, type_of, words

CPU = torch.device("cpu")


def without_compared(ptx):
    """Remove minima and maxima that are only compared. LLVM generates one for `a < c or b < c`, where NaN and the sign
    of zero make no difference."""
    lines = ptx.splitlines()
    for line in [line for line in lines if re.match(r"\s*(min|max)\.f", line)]:
        register = line.split()[1].rstrip(",")
        uses = [other for other in lines if re.search(rf"{register}\b", other) and other is not line]
        if all(other.split()[0].startswith(("setp.", ".reg")) for other in uses):
            lines.remove(line)
    return "\n".join(lines)


def main(capability, file):
    env = EchelonEnv(EnvConfig.small(), 2, CPU, 1, backend="eager")
    kernel_arguments = []
    jit.shared = play.shared = torch.Tensor.detach
    on_device.launch = lambda kernel, blocks, threads, device, *arguments: kernel_arguments.extend(arguments)
    on_device.processors = lambda device: 1
    loops = on_device.DeviceLoops(env.sim_model, env.engine.blocks, CPU)
    loops.play(env.state, torch.zeros((2, *env.action_spec["blue", "action"].shape[1:])).repeat(1, 2, 1))
    ptx = assemble(on_device.decision_kernel, [type_of(argument) for argument in kernel_arguments], capability)
    if file:
        Path(file).write_text(ptx)
    head = ptx.partition(".visible .entry")[2].partition(")")[0]
    options = LinkerOptions(arch="sm_{}{}".format(*capability), fma=False)
    code = Linker(ObjectCode.from_ptx(ptx.encode()), options=options).link("cubin").code
    print("operations:", *sorted(set(re.findall(r"\b[a-z][\w.]*\.f(?:16|32|64)\b[\w.]*", without_compared(ptx)))))
    print("parameters:", head.count(".param"))
    print("kinds:", *sorted(set(re.findall(r"\.param \.([bfsu]\d+)", head))))
    print("words:", sum(1 for argument in kernel_arguments for _ in words(argument)))
    print("bytes of machine code:", len(code))


if __name__ == "__main__":
    main((int(sys.argv[1]), int(sys.argv[2])), sys.argv[3] if len(sys.argv) > 3 else None)
