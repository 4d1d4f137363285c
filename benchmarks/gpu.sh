#!/usr/bin/env bash
# Tests and measures Echelon on this machine's GPU: benchmarks/gpu.sh [--minutes 3|10|30] [--help]. It installs nothing.
# PYTHON names the interpreter; by default it is the first that has torch.
set -euo pipefail
cd "$(dirname "$0")/.."
for each in "${PYTHON:-}" .venv/bin/python python python3; do
    if [ -n "$each" ] && "$each" -c "import torch" 2> /dev/null; then
        export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
        exec "$each" benchmarks/gpu_imports.py "$@"
    fi
done
echo "error: no Python with torch here: set PYTHON, or install as the README says" >&2
exit 1
