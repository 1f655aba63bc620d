"""The same learning on a Dask cluster: partitions become square roots, and a fixed tree of merges makes one of them.

dask is an optional dependency; this is the only package of remanence that imports it.
"""

try:
    import dask as _dask  # noqa: F401
except ImportError as error:
    from remanence.errors import MissingDependency

    raise MissingDependency(
        "remanence.scale needs dask, which is not installed; pip install 'remanence[scale]'"
    ) from error

from remanence.scale.cost import CostPlan, plan
from remanence.scale.evaluation import evaluate
from remanence.scale.learning import fit, merged, partial_fit
from remanence.scale.prediction import predict
from remanence.scale.unlearning import unlearn

__all__ = ["CostPlan", "evaluate", "fit", "merged", "partial_fit", "plan", "predict", "unlearn"]
