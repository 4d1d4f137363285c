"""Made-up values of reports."""

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;<!-- data -->"


def empty_report(**changes) -> dict:
    """A report of a run that has done nothing."""
    none = {"columns": [], "rows": []}
    report = {
        "name": "run",
        "state": "running",
        "told": "0 agent steps",
        "progress": 0.0,
        "made": "Echelon",
        "origin": [],
        "signs": [],
        "stages": [],
        "best": "",
        "tiles": [],
        "charts": [],
        "axes": {},
        "evaluations": {"columns": [], "rows": []},
        "skills": [],
        "behaviour": {"against": "", "weapons": none, "deeds": none, "charts": [], "distances": []},
        "battle": "none",
        "config": {"told": "", "settings": []},
    }
    return {**report, **changes}
