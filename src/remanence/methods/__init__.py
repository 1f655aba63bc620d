"""The linear methods, one file each: settings plus a memory. They differ only in what they remember of the past."""

from importlib import import_module
from typing import Any, NamedTuple

from remanence.methods.apa import APA
from remanence.methods.dictionary.task_dictionary import TaskDictionary
from remanence.methods.hybrid.switching import Switching
from remanence.methods.icl import ICL
from remanence.methods.kernel.kernel_lms import KernelLMS
from remanence.methods.kernel.kernel_rls import KernelRLS
from remanence.methods.lms import LMS
from remanence.methods.lowrank_rls import LowRankRLS
from remanence.methods.min_norm import min_norm
from remanence.methods.ogd import OGD
from remanence.methods.orfit import ORFit
from remanence.methods.protocol import Method
from remanence.methods.rls import RLS
from remanence.methods.signals.block_lms import BlockLMS
from remanence.methods.signals.window_rls import WindowRLS

__all__ = [
    "APA",
    "ICL",
    "LMS",
    "OGD",
    "RLS",
    "BlockLMS",
    "KernelLMS",
    "KernelRLS",
    "LowRankRLS",
    "Method",
    "MethodInfo",
    "ORFit",
    "Switching",
    "TaskDictionary",
    "WindowRLS",
    "list_methods",
    "min_norm",
]

MODULES = {  # class: the module that defines it; a new method gets one line here
    "LMS": "remanence.methods.lms",
    "APA": "remanence.methods.apa",
    "ICL": "remanence.methods.icl",
    "OGD": "remanence.methods.ogd",
    "ORFit": "remanence.methods.orfit",
    "RLS": "remanence.methods.rls",
    "LowRankRLS": "remanence.methods.lowrank_rls",
    "Kalman": "remanence.kalman.streaming",
    "KernelRLS": "remanence.methods.kernel.kernel_rls",
    "KernelLMS": "remanence.methods.kernel.kernel_lms",
    "Switching": "remanence.methods.hybrid.switching",
    "BlockLMS": "remanence.methods.signals.block_lms",
    "WindowRLS": "remanence.methods.signals.window_rls",
    "TaskDictionary": "remanence.methods.dictionary.task_dictionary",
}
TRANSFORMERS = {  # what learns rows without targets; loads scikit-learn
    "StreamingSVD": "remanence.estimators.decomposition.streaming_svd",
    "PETRELS": "remanence.estimators.decomposition.petrels",
    "GROUSE": "remanence.estimators.decomposition.grouse",
    "PeriodicFeatures": "remanence.estimators.decomposition.periodic_features",
    "ConvFeatures": "remanence.estimators.images.conv_features",
}


class MethodInfo(NamedTuple):
    """What the registry says of a method."""

    method: Any  # the class
    summary: str
    cost: str
    memory: str


def method_classes() -> dict[str, type[Method[Any]]]:
    """The methods that learn rows and targets, by name; scikit-learn is not loaded."""
    return {name: getattr(import_module(module), name) for name, module in MODULES.items()}


def list_methods() -> dict[str, MethodInfo]:
    """Every method: its class, a one-line summary, and its cost and memory per sample.

    What learns networks is named like "deep.GEM", and listed where torch is installed.

    Returns
    -------
    dict of str to MethodInfo

    Examples
    --------
    >>> import remanence as rm
    >>> rm.list_methods()["RLS"].memory
    'd² + dc'
    """
    found = {name: getattr(import_module(module), name) for name, module in (MODULES | TRANSFORMERS).items()}
    listed = {name: MethodInfo(m, m.summary, m.cost, m.memory) for name, m in found.items()}
    try:
        deep, words = import_module("remanence.deep"), import_module("remanence.deep.summaries").SUMMARIES
        return listed | {f"deep.{name}": MethodInfo(getattr(deep, name), *said) for name, said in words.items()}
    except ImportError:  # (torch)
        return listed
