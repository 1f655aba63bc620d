"""The memory of an editor as tensors and numbers, checked when it is read back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from remanence.arrays import Array, square, triangle
from remanence.deep.editing.preserved_keys import PreservedKeys
from remanence.deep.nn.saved_parts import SavedParts
from remanence.errors import InputError
from remanence.memory.root import Root
from remanence.memory.truncated_svd import Spectrum


def keys_to_parts(kept: PreservedKeys) -> dict[str, Any]:
    moment = kept.moment
    numbers = {"rows": kept.rows, "energy": kept.energy}
    if isinstance(moment, Root):
        return {**numbers, "triangle": _tensor(triangle(moment.factor))}
    return {**numbers, "basis": _tensor(moment.basis), "strength": _tensor(moment.strength), "dropped": moment.dropped}


def keys_from_parts(parts: Any, width: int, rank: int | None) -> PreservedKeys:
    saved = SavedParts(_dict(parts))
    rows, energy = int(saved.number("rows")), saved.number("energy")
    if rank is None:
        packed = saved.array("triangle", width * (width + 1) // 2)
        return PreservedKeys(Root(square(packed, width), np.zeros((width, 1), order="F"), np.zeros(1)), rows, energy)
    basis = saved.orthonormal("basis", width)
    strength = saved.array("strength", basis.shape[1])
    saved.check(bool((strength >= 0).all()), "strength")
    zeros = np.zeros((len(strength), 1))
    return PreservedKeys(Spectrum(basis, strength, zeros, np.zeros(1), saved.number("dropped")), rows, energy)


def edits_to_parts(edits: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {"keys": _tensor(e.keys), "change": _tensor(e.change), "precision": _tensor(1 / e.weights)}
        for name, e in edits.items()
    }


def edits_from_parts(parts: Any, width: int, outputs: int) -> dict[str, tuple[Array, Array, Array]]:
    """Keys, changes and weights of every edit."""
    found = {}
    for name, part in _dict(parts).items():
        saved = SavedParts(_dict(part))
        keys = saved.array("keys", None, width)
        inverse = saved.array("precision", len(keys))
        saved.check(
            bool((inverse >= 0).all()) and bool(len(keys)) and isinstance(name, str) and bool(name), "precision"
        )
        with np.errstate(divide="ignore"):
            found[name] = keys, saved.array("change", len(keys), outputs), 1 / inverse
    return found


def _dict(parts: Any) -> dict[str, Any]:
    if not isinstance(parts, Mapping):
        raise InputError(f"expected a dict of saved parts, got {type(parts).__name__}; is the file damaged?")
    return dict(parts)


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float64))
