"""Everything that needs torch: it stays an extra, and this room is the only one that imports it."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from remanence.errors import MissingDependency

    raise MissingDependency(
        "remanence.deep needs torch, which is not installed; pip install 'remanence[deep]'"
    ) from error

from remanence.deep.encoder import Encoder

__all__ = ["Encoder"]
