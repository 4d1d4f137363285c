"""Deprecated import path of `echelon.views` and `echelon.env.discrete`, removed in 2.0."""

import sys
import warnings
from importlib import import_module

MOVED = {
    "build": "echelon.views.build",
    "commanded": "echelon.views.commanded",
    "commanders": "echelon.views.commanders",
    "discrete": "echelon.env.discrete",
    "group_form": "echelon.views.group_form",
    "group_policy": "echelon.views.group_policy",
    "partition": "echelon.views.partition",
    "transforms": "echelon.views.transforms",
    "view": "echelon.views.view",
}
"""Module by its old name in this package."""

warnings.warn("echelon.env.views is echelon.views now; the old path works until 2.0", FutureWarning, stacklevel=2)
__path__: list[str] = []
for _name, _module in MOVED.items():
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = import_module(_module)
