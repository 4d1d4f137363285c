"""Limits that several settings of a training run have; `echelon.rules.limits` has those of a battle's."""

from __future__ import annotations

from echelon.runtime.limits import Limits

BATTLES = Limits(2, 10**6, "battles")
DECISIONS = Limits(1, 10**5, "decisions")
OPEN = Limits(1e-6, 1e12)
"""Greater than 0; a huge one switches off what it bounds."""
FROM_ZERO = Limits(0, 1e12)
FASTEST = 100
"""Highest learning rate."""
MECHS = Limits(1, 20, "mechs")
