"""The programs. A wheel packs `pipelines/` here; in a clone this package finds it beside `echelon/`."""

from __future__ import annotations

from pathlib import Path

_CLONE = Path(__file__).resolve().parents[2] / "pipelines"
if (_CLONE / "train.py").is_file():
    __path__.append(str(_CLONE))
