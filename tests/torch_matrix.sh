#!/usr/bin/env bash
# For each torch: a fresh environment, Dynamo's traces of every function that a GPU compiles (tests/test_traces.py), some of the usual tests, and
# a row of the table in benchmarks/README.md; then the environment is removed. Not part of CI: torch's default build takes 5 GB.
#
# tests/torch_matrix.sh                                  # every minor version that pyproject.toml allows
# tests/torch_matrix.sh 'torch==2.12.*' 'torch==2.14.*'  # these
# PYTHON=python3.12 TESTS=tests/env tests/torch_matrix.sh 'torch==2.13.*'
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 'torch==2.11.*' 'torch==2.12.*' 'torch==2.13.*' 'torch==2.14.*' 'torch==2.15.*'
tests=${TESTS:-tests/test_golden.py tests/learn/models}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONPATH=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

result() { # PYTEST ARGUMENTS...: what pytest says last, such as "8 passed in 30.02s (0:00:30)"
    "$work/venv/bin/python" -m pytest -o addopts=--strict-markers --benchmark-disable --show-capture=no "$@" > "$work/log" 2>&1 || {
        grep -E '^(E  |FAILED|ERROR)' "$work/log" >&2 || tail -n 20 "$work/log" >&2
    }
    tail -n 1 "$work/log" | sed -E 's/^=+ | =+$//g; s/ in ([0-9]+)\..*/ in \1 s/'
}

for torch in "$@"; do
    "${PYTHON:-python3}" -m venv "$work/venv"
    # What the project needs, and not the project, whose bounds are what is tried here.
    if "$work/venv/bin/pip" install -q --no-cache-dir --no-compile "$torch" torchrl==0.14.1 tensordict==0.14.3 numba scipy safetensors tyro \
        rich matplotlib pillow pytest pytest-benchmark hypothesis > "$work/log" 2>&1; then
        versions=$("$work/venv/bin/python" -c "import platform, torch, torchrl
print(f'| {torch.__version__} | {platform.python_version()} | {torchrl.__version__} |')")
        traced=$(result tests/test_traces.py)
        # shellcheck disable=SC2086
        usual=$(result $tests -m 'not long and not gpu and not fakecuda')
        echo "$versions $traced | $usual |"
        [[ "$traced$usual" != *@(failed|error)* ]] || failed=1
    else
        failed=1
        echo "| $torch | not to be had: $(grep -m 1 -E '^ERROR' "$work/log") |"
    fi
    rm -rf "$work/venv"
done
exit $failed
