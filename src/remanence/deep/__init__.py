"""Everything that needs torch: it stays an extra, and this room is the only one that imports it."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from remanence.errors import MissingDependency

    raise MissingDependency(
        "remanence.deep needs torch, which is not installed; pip install 'remanence[deep]'"
    ) from error

from remanence.deep.ebp import EBP
from remanence.deep.ekf import EKF
from remanence.deep.encoder import Encoder
from remanence.deep.fit_result import StreamFit
from remanence.deep.fit_stream import fit_stream, joint
from remanence.deep.gradient_projection import GradientProjection
from remanence.deep.guard import Guard
from remanence.deep.guard_report import GradientReport, GuardReport, LayerReport
from remanence.deep.heads import MultiHead
from remanence.deep.linearized_rls import LinearizedRLS
from remanence.deep.ogd import OGD
from remanence.deep.orfit import ORFit
from remanence.deep.owm import OWM

__all__ = [
    "EBP",
    "EKF",
    "OGD",
    "OWM",
    "Encoder",
    "GradientProjection",
    "GradientReport",
    "Guard",
    "GuardReport",
    "LayerReport",
    "LinearizedRLS",
    "MultiHead",
    "ORFit",
    "StreamFit",
    "fit_stream",
    "joint",
]
