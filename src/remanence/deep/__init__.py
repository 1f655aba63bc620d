"""Guards, online learners and training loops for torch networks.

torch is an optional dependency; this is the only package of remanence that imports it.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from remanence.errors import MissingDependency

    raise MissingDependency(
        "remanence.deep needs torch, which is not installed; pip install 'remanence[deep]'"
    ) from error

from remanence.deep import integrations as integrations
from remanence.deep.editing.editor import Editor
from remanence.deep.editing.find_value import find_value, find_values
from remanence.deep.editing.several_layers import edit_layers
from remanence.deep.encoder import Encoder
from remanence.deep.growing.growing import Growing, GrowthStep
from remanence.deep.guards.gradient_projection import GradientProjection
from remanence.deep.guards.guard import Guard
from remanence.deep.guards.ogd import OGD
from remanence.deep.guards.owm import OWM
from remanence.deep.guards.planning import GuardChoice
from remanence.deep.guards.replay.constrained import Constrained
from remanence.deep.guards.replay.constraint_report import ConstraintReport
from remanence.deep.guards.replay.gem import GEM
from remanence.deep.guards.report import GradientReport, GuardReport, LayerReport
from remanence.deep.guards.scaled_projection import ScaledProjection
from remanence.deep.nn.heads import MultiHead
from remanence.deep.online.ebp import EBP
from remanence.deep.online.ekf import EKF
from remanence.deep.online.linearized_rls import LinearizedRLS
from remanence.deep.online.orfit import ORFit
from remanence.deep.training.fit_stream import fit_stream, joint
from remanence.deep.training.result import StreamFit

__all__ = [
    "EBP",
    "EKF",
    "GEM",
    "OGD",
    "OWM",
    "Constrained",
    "ConstraintReport",
    "Editor",
    "Encoder",
    "GradientProjection",
    "GradientReport",
    "Growing",
    "GrowthStep",
    "Guard",
    "GuardChoice",
    "GuardReport",
    "LayerReport",
    "LinearizedRLS",
    "MultiHead",
    "ORFit",
    "ScaledProjection",
    "StreamFit",
    "edit_layers",
    "find_value",
    "find_values",
    "fit_stream",
    "joint",
]
