"""Remanence keeps a model up to date as tasks, classes and samples arrive, and proves what it has kept.

Everything public is named here and loaded when first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from remanence import moved as _moved

if TYPE_CHECKING:
    from remanence import certificates, compat, deep, evaluation, kalman, scale, streams
    from remanence.certificates import certify
    from remanence.errors import FileError, InputError, MissingDependency, NumericalError
    from remanence.estimators import (
        GROUSE,
        PETRELS,
        ContinualClassifier,
        ContinualRegressor,
        ConvFeatures,
        Finetune,
        Joint,
        NearestMean,
        PeriodicFeatures,
        RandomFeatures,
        Replay,
        StreamingSVD,
    )
    from remanence.evaluation import ErrorMatrix, Prequential, evaluate, metrics, prequential
    from remanence.kalman import Kalman
    from remanence.laws import check_method
    from remanence.methods import (
        APA,
        ICL,
        LMS,
        OGD,
        RLS,
        BlockLMS,
        KernelLMS,
        KernelRLS,
        LowRankRLS,
        ORFit,
        Switching,
        TaskDictionary,
        WindowRLS,
        list_methods,
        min_norm,
    )
    from remanence.methods import step_sizes as steps
    from remanence.parallel import set_threads, threads
    from remanence.store import load, save
    from remanence.streams import Task
    from remanence.tables import TableFeatures

__version__ = "0.1.0"
_moved.install()

_HOMES = {
    "APA": "methods",
    "ICL": "methods",
    "LMS": "methods",
    "Kalman": "kalman",
    "KernelLMS": "methods",
    "KernelRLS": "methods",
    "LowRankRLS": "methods",
    "OGD": "methods",
    "ORFit": "methods",
    "RLS": "methods",
    "Switching": "methods",
    "TaskDictionary": "methods",
    "BlockLMS": "methods",
    "WindowRLS": "methods",
    "list_methods": "methods",
    "min_norm": "methods",
    "ContinualClassifier": "estimators",
    "ContinualRegressor": "estimators",
    "ConvFeatures": "estimators",
    "RandomFeatures": "estimators",
    "TableFeatures": "tables",
    "Replay": "estimators",
    "StreamingSVD": "estimators",
    "PETRELS": "estimators",
    "GROUSE": "estimators",
    "PeriodicFeatures": "estimators",
    "NearestMean": "estimators",
    "Joint": "estimators",
    "Finetune": "estimators",
    "certify": "certificates",
    "ErrorMatrix": "evaluation",
    "evaluate": "evaluation",
    "Prequential": "evaluation",
    "prequential": "evaluation",
    "check_method": "laws",
    "load": "store",
    "save": "store",
    "set_threads": "parallel",
    "threads": "parallel",
    "Task": "streams",
    "FileError": "errors",
    "InputError": "errors",
    "MissingDependency": "errors",
    "NumericalError": "errors",
}
_MODULES = {
    "certificates": "remanence.certificates",
    "compat": "remanence.compat",
    "deep": "remanence.deep",
    "evaluation": "remanence.evaluation",
    "kalman": "remanence.kalman",
    "metrics": "remanence.evaluation.metrics",
    "scale": "remanence.scale",
    "steps": "remanence.methods.step_sizes",
    "streams": "remanence.streams",
}

__all__ = [
    "APA",
    "GROUSE",
    "ICL",
    "LMS",
    "OGD",
    "PETRELS",
    "RLS",
    "BlockLMS",
    "ContinualClassifier",
    "ContinualRegressor",
    "ConvFeatures",
    "ErrorMatrix",
    "FileError",
    "Finetune",
    "InputError",
    "Joint",
    "Kalman",
    "KernelLMS",
    "KernelRLS",
    "LowRankRLS",
    "MissingDependency",
    "NearestMean",
    "NumericalError",
    "ORFit",
    "PeriodicFeatures",
    "Prequential",
    "RandomFeatures",
    "Replay",
    "StreamingSVD",
    "Switching",
    "TableFeatures",
    "Task",
    "TaskDictionary",
    "WindowRLS",
    "certificates",
    "certify",
    "check_method",
    "compat",
    "deep",
    "evaluate",
    "evaluation",
    "kalman",
    "list_methods",
    "load",
    "metrics",
    "min_norm",
    "prequential",
    "save",
    "scale",
    "set_threads",
    "steps",
    "streams",
    "threads",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"remanence.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    else:
        raise AttributeError(f"module 'remanence' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
