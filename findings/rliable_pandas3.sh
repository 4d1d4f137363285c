#!/usr/bin/env bash
# Guess: `pip install rliable`, the package that intervals of reinforcement learning are published with, can be imported.
# Seen: a plain install takes pandas 3.1.1 with arch 7.2.0, and `import rliable.library` ends in TypeError
#   (deprecate_kwarg() of pandas has another signature): nothing in between has a bound. With pandas 2.3.3 it works.
#   There, a run whose score is missing (NaN) makes every aggregate NaN, and a single run gets an interval of no width.
# Versions: rliable 1.2.0, arch 7.2.0, pandas 3.1.1 and 2.3.3, numpy 2.4.6 (2026-11-29, Python 3.11).
# Hurt: everybody who follows the usual advice for figures of several runs, in a new environment.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q rliable==1.2.0 arch==7.2.0 pandas==3.1.1 numpy==2.4.6 statsmodels==0.15.0
new=$("$work/v/bin/python" -c "import rliable.library" 2>&1 | tail -n 1 || true)
"$work/v/bin/pip" install -q pandas==2.3.3
"$work/v/bin/python" - "$new" << 'END'
import sys

import numpy as np
from rliable import library, metrics

new = sys.argv[1]
missing = metrics.aggregate_iqm(np.array([[0.8], [0.82], [0.84], [np.nan]]))
one = np.array([[0.8, 0.2, 0.4]])
_, interval = library.get_interval_estimates({"one": one}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=200)
low, high = interval["one"][:, 0]
print(f"pandas 3.1.1: {new}; pandas 2.3.3: IQM with a missing run {missing}, interval of one run {low:.3f}..{high:.3f}")
holds = new.startswith("TypeError: deprecate_kwarg()") and np.isnan(missing) and low == high
print("a plain install cannot be imported:", holds)
sys.exit(not holds)
END
