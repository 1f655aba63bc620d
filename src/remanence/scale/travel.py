"""What partitions taught, in the form that travels between workers: no settings, no encoder, packed triangles."""

from dataclasses import dataclass
from typing import Any

from remanence.estimators import RandomFeatures
from remanence.estimators.growing_features import GrowingFeatures


@dataclass(frozen=True)
class LearnedPart:
    """The learned attributes of an estimator; they are never written to, because a task may run twice."""

    attributes: dict[str, Any]
    first: str = ""  # the name of its first partition, for messages


def pack(model: Any, first: str = "") -> LearnedPart:
    """What the model has learned; a frozen encoder stays with the settings, which reach every worker once."""
    settings = set(model.get_params(deep=False))
    attributes = {name: value for name, value in model.__dict__.items() if name not in settings}
    if not isinstance(model.features, (RandomFeatures, GrowingFeatures)):
        attributes.pop("features_", None)
    return LearnedPart(attributes, first)


def unpack(model: Any, learned: LearnedPart) -> Any:
    """A new estimator with the settings of `model` that has learned this."""
    attributes = {name: getattr(model, name) for name in model.get_params(deep=False)} | learned.attributes
    if model.features is not None:
        attributes.setdefault("features_", model.features)
    return model._with(attributes)
