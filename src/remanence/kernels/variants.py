"""Choose between the builds of a kernel: for any processor, or for this one if it knows AVX2."""

from importlib import import_module
from types import ModuleType

from remanence.errors import MissingDependency


def load(name: str) -> ModuleType:
    """The fastest build of a kernel module that this processor can run."""
    try:
        from remanence.kernels.baseline.processor import has_avx2

        if has_avx2():
            return import_module(f"remanence.kernels.avx2.{name}")
        return import_module(f"remanence.kernels.baseline.{name}")
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("remanence."):
            raise
        raise MissingDependency(
            f"expected the compiled module {missing.name}, got none for this Python; "
            f"install the package, or in a source tree run `pip install -e .`, which needs a C compiler"
        ) from None
