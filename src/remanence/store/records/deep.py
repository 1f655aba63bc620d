"""Records of guards and online learners: settings and memory; of the network only a fingerprint is stored.

rm.save(guard, path);  rm.load(path, model=net)        net: of the same architecture, with its weights loaded
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from remanence.arrays import Array
from remanence.store.format.record import External, Record

DEEP = "remanence.deep"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as a NumPy array, and its dtype under the name that files have for it."""

    numbers: Array
    kind: str


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested dicts, lists and tuples with everything else in them changed."""
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(part, change) for part in value)
    return change(value)


def _fingerprint(model: Any) -> str:
    """Return a hash of a network's weights; none if each process has a part of them, so that one alone can save."""
    from remanence.deep.encoder import Encoder
    from remanence.deep.nn.sharding.shards import is_sharded
    from remanence.deep.nn.wrappers import unwrap

    return "" if is_sharded(unwrap(model)) else Encoder(unwrap(model)).fingerprint()


def _stored(value: Any) -> Any:
    from torch import Tensor

    from remanence.deep.nn.tensors import to_array

    return StoredTensor(*to_array(value)) if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    from remanence.deep.nn.tensors import to_tensor

    return to_tensor(value.numbers, value.kind) if isinstance(value, StoredTensor) else value


def _to_parts(learner: Any) -> dict[str, Any]:
    from remanence.deep.nn.tensors import structure

    return {
        "model": External("model", structure(learner.model)),
        "weights": _fingerprint(learner.model),
        "settings": learner.settings,
        "memory": _mapped(learner.state_dict(), _stored),
    }


def _to_parts_with_layers(learner: Any) -> dict[str, Any]:
    """Which parameters it may move is a setting too."""
    parts = _to_parts(learner)
    return parts | {"settings": {**parts["settings"], "layers": list(learner.flat.names)}}


def _from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    model = parts["model"]
    learner = cls(model, **parts["settings"])
    learner.load_state_dict(_mapped(parts["memory"], _tensor))
    if parts["weights"] and _fingerprint(model) not in ("", parts["weights"]):
        warnings.warn(
            f"the network's weights are not those it had when its {cls.__name__} was saved; load them too, "
            f"or what was learned then is not what the network answers now",
            UserWarning,
            stacklevel=2,
        )
    return learner


def _editor_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    """Refuse another model: what an editor preserves and edits are answers of this one."""
    from remanence.errors import InputError

    if _fingerprint(parts["model"]) != parts["weights"]:
        raise InputError(
            f"the network's weights are not those it had when its {cls.__name__} was saved; load the weights that were "
            f"saved with it, or make a new {cls.__name__}"
        )
    return _from_parts(cls, parts)


def _growing_to_parts(network: Any) -> dict[str, Any]:
    return {"settings": network.settings, "memory": _mapped(network.get_extra_state(), _stored)}


def _growing_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    network = cls(**parts["settings"])
    network.set_extra_state(_mapped(parts["memory"], _tensor))
    return network


PARTS = {"model": "setting", "weights": "str", "settings": "setting", "memory": "setting"}


def _record(
    module: str,
    to_parts: Callable[[Any], dict[str, Any]] = _to_parts,
    from_parts: Callable[[Any, dict[str, Any]], Any] = _from_parts,
) -> Record:
    return Record(f"{DEEP}.{module}", PARTS, to_parts=to_parts, from_parts=from_parts, is_root=True)


DEEP_RECORDS = {
    "StoredTensor": Record(__name__, {"numbers": "setting", "kind": "str"}),
    "deep.GradientProjection": _record("guards.gradient_projection"),
    "deep.OWM": _record("guards.owm"),
    "deep.ScaledProjection": _record("guards.scaled_projection"),
    "deep.OGD": _record("guards.ogd"),
    "deep.GEM": _record("guards.replay.gem"),
    "deep.Constrained": _record("guards.replay.constrained"),
    "deep.EBP": _record("online.ebp"),
    "deep.EKF": _record("online.ekf"),
    "deep.LinearizedRLS": _record("online.linearized_rls", _to_parts_with_layers),
    "deep.ORFit": _record("online.orfit"),
    "deep.Editor": _record("editing.editor", from_parts=_editor_from_parts),
    "deep.Growing": Record(
        f"{DEEP}.growing.growing",
        {"settings": "setting", "memory": "setting"},
        to_parts=_growing_to_parts,
        from_parts=_growing_from_parts,
        is_root=True,
    ),
}
