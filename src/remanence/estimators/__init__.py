"""scikit-learn estimators around the methods, random features, and baselines to compare with."""

from remanence.estimators.baselines import Finetune, Joint, NearestMean, Replay
from remanence.estimators.classifier import ContinualClassifier
from remanence.estimators.random_features import RandomFeatures
from remanence.estimators.regressor import ContinualRegressor

__all__ = [
    "ContinualClassifier",
    "ContinualRegressor",
    "Finetune",
    "Joint",
    "NearestMean",
    "RandomFeatures",
    "Replay",
]
