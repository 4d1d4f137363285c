#!/usr/bin/env bash
# Guess: numba.set_num_threads and torch.set_num_threads each set the threads of their own library.
# Seen: the first loop of numba with parallel=True sets torch to NUMBA_NUM_THREADS threads (the number of cores if it is
#   not set), though torch.set_num_threads(1) or OMP_NUM_THREADS=1 asked for one: the linker binds numba's
#   omp_set_num_threads to the OpenMP runtime that torch has loaded. A torch.set_num_threads after that loop lasts.
# Versions: numba 0.68.1 (threading layer omp), torch 2.13.0, numpy 2.4.6, Python 3.11 (2026-11-30).
# Hurt: workers that simulate with numba and act with torch, one thread each: after the first step the torch of every
#   worker uses all cores.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q torch==2.13.0 numba==0.68.1 numpy==2.4.6
cat > "$work/threads.py" << 'END'
import sys

import torch
import numba
import numpy as np


@numba.njit(parallel=True)
def total(values):
    result = 0.0
    for i in numba.prange(values.size):
        result += values[i]
    return result


if "set" in sys.argv:
    torch.set_num_threads(1)
counts = [torch.get_num_threads()]
total(np.ones(9))
counts.append(torch.get_num_threads())
torch.set_num_threads(1)
total(np.ones(9))
counts.append(torch.get_num_threads())
print(numba.threading_layer(), *counts)
END
set_one=$(NUMBA_NUM_THREADS=3 NUMBA_THREADING_LAYER=omp "$work/v/bin/python" "$work/threads.py" set)
variable=$(OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=3 NUMBA_THREADING_LAYER=omp "$work/v/bin/python" "$work/threads.py")
echo "torch's threads before, after a loop of numba, after setting 1 and another loop: $set_one; by variable: $variable"
if [ "$set_one" = "omp 1 3 1" ] && [ "$variable" = "omp 1 3 1" ]; then
    echo "the first parallel loop of numba undoes torch.set_num_threads(1): True"
else
    echo "the first parallel loop of numba undoes torch.set_num_threads(1): False"
    exit 1
fi
