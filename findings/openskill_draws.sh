#!/usr/bin/env bash
# Guess: predict_win of two teams and predict_draw are the probabilities of one game's outcomes and add up to 1.
# Seen: for two new players predict_win gives 0.5 and 0.5, and predict_draw 0.237: together 1.237. For ten a side the
#   wins are 0.5 and 0.5 too, beside another probability of a draw. predict_win leaves draws out; predict_draw is not
#   taken from the same scale.
# Versions: openskill 6.2.0 (2026-11-29, Python 3.11); PlackettLuce, BradleyTerryFull, ThurstoneMostellerFull alike.
# Hurt: leagues of games with draws that take a win rate from predict_win (a match with 24 % draws is not won half of
#   the time), and match making by "win + half a draw".
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/v"
"$work/v/bin/pip" install -q openskill==6.2.0
"$work/v/bin/python" - << 'END'
import sys

from openskill.models import BradleyTerryFull, PlackettLuce, ThurstoneMostellerFull

totals = {}
for model in (PlackettLuce(), BradleyTerryFull(), ThurstoneMostellerFull()):
    for size in (1, 10):
        teams = [[model.rating() for _ in range(size)] for _ in range(2)]
        wins, draw = model.predict_win(teams), model.predict_draw(teams)
        totals[type(model).__name__, size] = (round(sum(wins), 3), round(draw, 3))
print(totals)
holds = all(won == 1.0 and draw > 0.01 for won, draw in totals.values()) and totals["PlackettLuce", 1][1] == 0.237
print("wins add up to 1 beside a probability of a draw:", holds)
sys.exit(not holds)
END
