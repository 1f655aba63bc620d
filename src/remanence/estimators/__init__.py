"""scikit-learn estimators around the methods, random features, and baselines to compare with.

They are loaded when first used: linear_predictor.py, which predicts without scikit-learn, is imported without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remanence.estimators.baselines import Finetune, Joint, NearestMean, Replay
    from remanence.estimators.classifier import ContinualClassifier
    from remanence.estimators.decomposition.grouse import GROUSE
    from remanence.estimators.decomposition.periodic_features import PeriodicFeatures
    from remanence.estimators.decomposition.petrels import PETRELS
    from remanence.estimators.decomposition.streaming_svd import StreamingSVD
    from remanence.estimators.images.conv_features import ConvFeatures
    from remanence.estimators.random_features import RandomFeatures
    from remanence.estimators.regressor import ContinualRegressor

__all__ = [
    "GROUSE",
    "PETRELS",
    "ContinualClassifier",
    "ContinualRegressor",
    "ConvFeatures",
    "Finetune",
    "Joint",
    "NearestMean",
    "PeriodicFeatures",
    "RandomFeatures",
    "Replay",
    "StreamingSVD",
]

_HOMES = {
    "ContinualClassifier": "classifier",
    "ContinualRegressor": "regressor",
    "ConvFeatures": "images.conv_features",
    "Finetune": "baselines",
    "Joint": "baselines",
    "NearestMean": "baselines",
    "RandomFeatures": "random_features",
    "Replay": "baselines",
    "GROUSE": "decomposition.grouse",
    "PETRELS": "decomposition.petrels",
    "StreamingSVD": "decomposition.streaming_svd",
    "PeriodicFeatures": "decomposition.periodic_features",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
