"""Import paths of earlier versions: each still gives its module, with a DeprecationWarning that names the new path.

Only modules that users may have imported are listed: those that held a public name or that the documents mentioned.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "checks": "validation",
    "deep.ebp": "deep.online.ebp",
    "deep.ekf": "deep.online.ekf",
    "deep.fit_result": "deep.training.result",
    "deep.gradient_projection": "deep.guards.gradient_projection",
    "deep.guard": "deep.guards.guard",
    "deep.guard_report": "deep.guards.report",
    "deep.heads": "deep.nn.heads",
    "deep.linearized_rls": "deep.online.linearized_rls",
    "deep.ogd": "deep.guards.ogd",
    "deep.orfit": "deep.online.orfit",
    "deep.owm": "deep.guards.owm",
    "kalman.filtering": "kalman.filter",
    "kalman.learning": "kalman.em",
    "kalman.linear_methods": "kalman.nonlinear.linearized",
    "kalman.outlook": "kalman.forecast",
    "kalman.smoothing": "kalman.smoother",
    "kalman.surprises": "kalman.innovations",
    "kalman.transfer": "kalman.backward_transfer",
    "memory.lowrank": "memory.truncated_svd",
    "methods.steps": "methods.step_sizes",
    "streams.repeat": "streams.recurring",
    "streams.tables": "tables",
    "streams.tables.arrays": "tables.npz",
    "streams.tables.text": "tables.csv",
    "streams.tables.writing": "tables.write",
}


def new_path(fullname: str) -> str | None:
    """The path that replaces an old one, or None: listed above, or inside a package that is."""
    package, _, old = fullname.partition(".")
    if package != "remanence":
        return None
    if old in MOVED:
        return f"remanence.{MOVED[old]}"
    folder, _, name = old.rpartition(".")
    return f"remanence.{MOVED[folder]}.{name}" if folder in MOVED else None


class MovedModules:
    """Finder and loader of the old paths.

    It stands first in `sys.meta_path`: the finder of files would load a second copy of a module from a moved package.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if new_path(fullname) else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None  # an empty one, which exec_module replaces

    def exec_module(self, module: ModuleType) -> None:
        old, new = module.__name__, new_path(module.__name__)
        assert new is not None  # or find_spec would have found nothing
        warnings.warn(f"{old} has moved; import {new} instead", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)  # the import system returns what stands here


def install() -> None:
    """Let the import system find the old paths; calling it again changes nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
