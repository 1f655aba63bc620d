"""scikit-learn estimators over any method: what most people use."""

from remanence.estimators.classifier import ContinualClassifier
from remanence.estimators.random_features import RandomFeatures
from remanence.estimators.regressor import ContinualRegressor

__all__ = ["ContinualClassifier", "ContinualRegressor", "RandomFeatures"]
