"""Guards inside the training loops of other libraries; each library is imported only when its module is used.

    huggingface.GuardCallback      for the Trainer of transformers (and TRL, which builds on it)
    lightning.GuardCallback        for the Trainer of Lightning

Accelerate needs none: pass the prepared model and optimizer to the guard.
"""

from importlib import import_module
from typing import Any

NEEDS = {"huggingface": ("transformers", "hf"), "lightning": ("lightning", "lightning")}


def __getattr__(name: str) -> Any:
    if name not in NEEDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library, extra = NEEDS[name]
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        from remanence.errors import MissingDependency

        raise MissingDependency(
            f"remanence.deep.integrations.{name} needs {library}, which is not installed; "
            f"pip install 'remanence[{extra}]'"
        ) from error


def __dir__() -> list[str]:
    return sorted([*globals(), *NEEDS])
