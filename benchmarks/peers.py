"""The libraries to compare with, imported when a benchmark needs them."""

from importlib import import_module
from types import ModuleType

from benchmarks.rows import PeerMissing


def peer(module: str, extra: str = "bench") -> ModuleType:
    """The module; raises PeerMissing, which says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise PeerMissing(
            f"{name} is not installed; `pip install -e '.[{extra}]'` installs the libraries to compare with"
        ) from error
