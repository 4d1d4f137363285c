#!/usr/bin/env bash
# Guess: an entry that won all of its games has no maximum-likelihood strength, so every estimator of choix refuses it.
# Seen: ilsr_pairwise and lsr_pairwise raise ValueError and mm_pairwise RuntimeError, but opt_pairwise (alpha=0, its
#   default) returns a finite strength without a warning. It is where the optimiser stopped: 12.5 above the rival after 5
#   wins of 5 (odds of 280,000 to 1), 16.9 after 500 of 500, and BFGS stops at 12.3 where Newton-CG stops at 12.5.
# Versions: choix 0.4.1, numpy 2.4.6, scipy 1.17.1 (2026-11-29, Python 3.11).
# Hurt: leagues that rate an undefeated champion by Bradley-Terry and print the figure beside those of other entries.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q choix==0.4.1 numpy==2.4.6 scipy==1.17.1
"$work/v/bin/python" - << 'END'
import sys
import warnings

import choix

warnings.simplefilter("error")
few = [(0, 1)] * 5 + [(1, 2)] * 3 + [(2, 1)]  # (winner, loser): entry 0 beat entry 1 five times of five.
many = [(0, 1)] * 500 + [(1, 2)] * 3 + [(2, 1)]
raised = {}
for name in ("ilsr_pairwise", "lsr_pairwise", "mm_pairwise"):
    try:
        raised[name] = f"returned {getattr(choix, name)(3, few)}"
    except (ValueError, RuntimeError) as error:
        raised[name] = type(error).__name__
gaps = {}
for label, games in (("5 of 5", few), ("500 of 500", many)):
    for method in ("Newton-CG", "BFGS"):
        strength = choix.opt_pairwise(3, games, method=method)
        gaps[label, method] = float(strength[0] - strength[1])
print(raised, {key: round(gap, 2) for key, gap in gaps.items()})
refused = list(raised.values()) == ["ValueError", "ValueError", "RuntimeError"]
finite = all(5 < gap < 100 for gap in gaps.values())
differ = abs(gaps["5 of 5", "Newton-CG"] - gaps["5 of 5", "BFGS"]) > 0.1
print("opt_pairwise alone tells a strength of an undefeated entry:", refused and finite and differ)
sys.exit(not (refused and finite and differ))
END
