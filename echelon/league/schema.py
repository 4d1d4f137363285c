"""SQL schema of a league: the tables of its file, and the views of an open one."""

from __future__ import annotations

KINDS = ("scripted", "candidate", "commander", "main", "exploiter", "retired")
"""Kinds of entries: scripted tiers, added checkpoints, the best of those, snapshots of main agents, exploiters, and
retired entries, which play no more battles."""
CHANGES = ("added", "promoted", "demoted", "retired", "judged", "reset")
"""Kinds of recorded changes of an entry or a role."""

APPLICATION_ID = int.from_bytes(b"Echl", "big")
"""`PRAGMA application_id` of a league."""
VERSION = 5
"""`PRAGMA user_version` of a league."""


def listed(names: tuple[str, ...]) -> str:
    """Format names as an SQL list."""
    return ", ".join(f"'{name}'" for name in names)


TABLES = (
    "CREATE TABLE league (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"""CREATE TABLE entries (
        id TEXT PRIMARY KEY CHECK (length(id) = 64),
        kind TEXT NOT NULL CHECK (kind IN ({listed(KINDS)})),
        name TEXT NOT NULL UNIQUE,
        parent TEXT REFERENCES entries (id),
        env TEXT NOT NULL,
        created REAL NOT NULL)""",
    "CREATE TABLE periods (number INTEGER PRIMARY KEY, opened REAL NOT NULL, closed REAL)",
    """CREATE TABLE matches (
        key TEXT PRIMARY KEY,
        period INTEGER NOT NULL REFERENCES periods (number),
        blue TEXT NOT NULL REFERENCES entries (id),
        red TEXT NOT NULL REFERENCES entries (id) CHECK (red <> blue),
        seed INTEGER NOT NULL,
        recipe TEXT NOT NULL,
        winner INTEGER NOT NULL CHECK (winner IN (0, 1, 2)),
        reason TEXT NOT NULL,
        decisions INTEGER NOT NULL CHECK (decisions > 0),
        duration_s REAL NOT NULL,
        stats TEXT NOT NULL,
        created REAL NOT NULL, state_hash TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX matches_of_a_period ON matches (period)",
    """CREATE TABLE ratings (
        period INTEGER NOT NULL REFERENCES periods (number),
        entry TEXT NOT NULL REFERENCES entries (id),
        rating REAL NOT NULL,
        deviation REAL NOT NULL CHECK (deviation > 0),
        volatility REAL NOT NULL CHECK (volatility > 0),
        PRIMARY KEY (entry, period))""",
    f"""CREATE TABLE changes (
        number INTEGER PRIMARY KEY,
        period INTEGER NOT NULL REFERENCES periods (number),
        entry TEXT REFERENCES entries (id),
        change TEXT NOT NULL CHECK (change IN ({listed(CHANGES)})),
        reason TEXT NOT NULL,
        created REAL NOT NULL)""",
    """CREATE TABLE claims (
        blue TEXT NOT NULL,
        red TEXT NOT NULL,
        seed INTEGER NOT NULL,
        owner TEXT NOT NULL,
        PRIMARY KEY (blue, red, seed))""",
)
"""Statements that make the file of a league."""

VIEWS = (
    """CREATE TEMP VIEW payoff AS
        SELECT x, y, count(*) AS games, sum(score) AS score FROM (
            SELECT blue AS x, red AS y, CASE winner WHEN 1 THEN 1.0 WHEN 0 THEN 0.5 ELSE 0.0 END AS score
            FROM main.matches
            UNION ALL
            SELECT red, blue, CASE winner WHEN 2 THEN 1.0 WHEN 0 THEN 0.5 ELSE 0.0 END FROM main.matches)
        GROUP BY x, y""",
    """CREATE TEMP VIEW standings AS
        SELECT e.id, e.name, e.kind, r.rating, r.deviation, r.volatility,
            coalesce(total.games, 0) AS games, coalesce(total.score, 0.0) AS score
        FROM main.entries AS e
        LEFT JOIN main.ratings AS r ON r.entry = e.id
            AND r.period = (SELECT max(period) FROM main.ratings WHERE entry = e.id)
        LEFT JOIN (SELECT x, sum(games) AS games, sum(score) AS score FROM payoff GROUP BY x) AS total
            ON total.x = e.id""",
)
"""Views that every connection makes for itself: a file holds none, because reading a stored one would run the SQL of
whoever wrote the file."""
