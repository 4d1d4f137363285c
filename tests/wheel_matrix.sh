#!/usr/bin/env bash
# Build the wheel and the sdist, install the wheel into a fresh environment of one Python, and run the README's commands from an empty
# folder with small settings. Prints a row of the table in benchmarks/README.md. Not part of CI: torch's default build takes 5 GB.
#
# tests/wheel_matrix.sh python3.12                 # the newest torch that pip finds
# tests/wheel_matrix.sh python3.12 'torch==2.14.*' # this one
# WHEEL=$(ls dist/*.whl) tests/wheel_matrix.sh python3.12   # one that was built before
# TESTS="tests/env tests/test_golden.py" tests/wheel_matrix.sh python3.12   # tests of the clone too, against the installed wheel
set -euo pipefail
python=$1
torch=${2:-torch}
clone=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} NUMBA_CACHE_DIR=$work/numba XDG_CACHE_HOME=$work/cache
unset PYTHONPATH

times=()
timed() { # NAME COMMAND...: runs it, and notes the seconds
    local name=$1 began=$EPOCHREALTIME
    shift
    "$@" > "$work/log" 2>&1 || { echo "failed: $*" >&2; tail -n 40 "$work/log" >&2; exit 1; }
    times+=("$name $(awk "BEGIN { printf \"%.0f\", $EPOCHREALTIME - $began }") s")
}

# What is built is what git has: a copy, so that no `build/` of an earlier time gets in.
mkdir "$work/source" "$work/empty"
git -C "$clone" ls-files -z | (cd "$clone" && xargs -0 cp --parents -t "$work/source")
timed venv "$python" -m venv "$work/venv"
bin=$work/venv/bin
if [ -n "${WHEEL:-}" ]; then
    mkdir "$work/dist" && cp "$WHEEL" "$work/dist"
else
    timed build bash -c "'$bin/pip' install -q build twine && '$bin/python' -m build -q -o '$work/dist' '$work/source' \
        && '$bin/twine' check --strict '$work'/dist/*"
fi
timed install "$bin/pip" install -q --no-cache-dir --no-compile "$work"/dist/*.whl "$torch"
size=$(du -sh "$work/venv" | cut -f1)

cd "$work/empty"
fingerprint=$(sed -n 's/^ "fingerprint": "\(.*\)",/\1/p' "$clone/tests/golden/trajectories.json")
timed fingerprint bash -c "[ \"\$('$bin/echelon' fingerprint)\" = $fingerprint ]"
small=(--num-envs 8 --total-agent-steps 2000 --ppo.rollout-decisions 16 --evaluation.battles 2 --evaluation.final-battles 2 --evaluation.tiers trivial)
timed train "$bin/echelon-train" --preset quick --run-dir run --checkpoint-every 1 "${small[@]}"
checkpoint=$(ls -d run/checkpoints/* | tail -n 1)
timed checkpoint "$bin/echelon" checkpoint "$checkpoint"
timed play "$bin/echelon-arena" play --blue "$checkpoint" --red heuristic:trivial --battles 2 --replay battles.echelon
timed watch "$bin/echelon-arena" watch battles.echelon --strip strip.png
[ -s battles.html ] && [ -s strip.png ]
timed league "$bin/echelon-arena" init --league league --env small
cat > typed.py << 'END'
import echelon
env: echelon.EchelonEnv = echelon.EchelonEnv(echelon.EnvConfig.small(), num_envs=2)
env.rollout(3)
scene = echelon.Scene()
scene.place("blue", "medium", at=(8, 8))
scene.place("red", "heavy", at=(30, 30))
scene.env(num_envs=2).rollout(3)
END
timed library "$bin/python" typed.py
versions=$("$bin/python" -c "import platform, torch, torchrl, numba
print(f'| {platform.python_version()} | {torch.__version__} | {torchrl.__version__} | {numba.__version__} |')")
printf '%s %s |' "$versions" "$size"
printf ' %s,' "${times[@]}" | sed 's/,$/ |\n/'
if [ -n "${TESTS:-}" ]; then
    "$bin/pip" install -q pytest pytest-benchmark pytest-xdist hypothesis
    cp -r "$work"/source/{tests,pyproject.toml} .
    # shellcheck disable=SC2086
    "$bin/python" -m pytest -q $TESTS 2>&1 | tail -n 15
fi
