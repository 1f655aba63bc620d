"""Orthogonal recursive fitting of a network: one pass, each sample fitted to first order, earlier outputs kept.

    J = ∂f(x; θ)/∂θ,    J̄ = J − (J U) Uᵀ                                        (O1)   allowed directions
    θ ← θ + J̄⁺ (y − f(x; θ))                                                    (O2)   smallest step that fits f̃
    U ← [U, J̄ᵀ made orthonormal], or the `rank` strongest directions of [U diag(s), Jᵀ]   (O3)

As long as nothing was dropped from U, the step changes no earlier output, linearized where it was learned. For a
network that is linear in its weights this is ICL: every sample is fitted exactly, and if earlier samples determine the
output the weights stay.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from remanence.arrays import Array
from remanence.deep.nn.saved_parts import SavedParts
from remanence.deep.online.learner import OnlineLearner, add_change, check_targets, linearized
from remanence.memory.subspace import Subspace, effective_tolerance, nothing
from remanence.memory.truncated_svd import Spectrum, no_spectrum
from remanence.validation import check_count, check_number


class ORFit(OnlineLearner[Subspace | Spectrum]):
    """Orthogonal recursive fitting: fit each sample, to first order, by the smallest step that keeps earlier outputs.

    `step` processes the samples of a batch one after the other, so the division into batches does not matter. It
    returns y − f(x) of each sample at the weights just before that sample.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch (n, …) to outputs (n, c).
    rank : int, optional
        Number of directions to remember; by default all, at most c per sample. A stream with more samples than the
        network has weights needs a rank: the last free directions have tiny derivatives, and fitting noisy targets
        along them takes long steps.
    tolerance : float
        Relative length below which the new part of a derivative is treated as zero, never less than the network's
        precision.

    References
    ----------
    Min, Ahn and Azizan (2022), "One-pass learning via bridging orthogonal gradient descent and recursive
    least-squares", CDC.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> net = torch.nn.Linear(8, 1).double()
    >>> learner = rm.deep.ORFit(net)
    >>> x, y = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, 1, dtype=torch.float64)
    >>> errors = learner.step(x, y)
    >>> bool((net(x) - y).abs().max() < 1e-8)  # all four samples are fitted
    True
    """

    def __init__(self, model: torch.nn.Module, rank: int | None = None, tolerance: float = 1e-9) -> None:
        super().__init__(model)
        self.rank = None if rank is None else check_count(rank, "rank", hint="None keeps every direction")
        self.tolerance = check_number(tolerance, "tolerance", high=1.0, hint="a small number like 1e-9")
        size = self.flat.size
        self.memory = nothing(size, np.zeros(0)) if self.rank is None else no_spectrum(size, 0)

    @property
    def settings(self) -> dict[str, Any]:
        return {"rank": self.rank, "tolerance": self.tolerance}

    def _compute_step(self, x: Tensor, y: Any) -> tuple[Tensor, Subspace | Spectrum, Array]:
        vector, past = self.flat.vector(), self.memory
        tolerance = effective_tolerance(self.tolerance, vector)
        targets: Array | None = None
        errors = []
        for i in range(len(x)):
            outputs, J = linearized(self.flat, x[i : i + 1], vector)
            targets = check_targets(y, (len(x), outputs.shape[1])) if targets is None else targets
            errors.append(targets[i] - outputs[0])
            vector = add_change(vector, smallest_step(Subspace(past.basis), J[0], errors[i], tolerance))
            past = self._remembered(past, J[0], tolerance)
        return vector, past, np.array(errors)

    def _remembered(self, past: Subspace | Spectrum, J: Array, tolerance: float) -> Subspace | Spectrum:
        if isinstance(past, Subspace):
            return past.extended(J.T, tolerance)
        assert self.rank is not None
        return past.absorbed(J, np.zeros((len(J), 0)), self.rank) if J.any() else past  # (O3)

    def _memory_to_dict(self) -> dict[str, Any]:
        if isinstance(self.memory, Subspace):
            return {"basis": self.memory.basis}
        return {"basis": self.memory.basis, "strength": self.memory.strength, "dropped": self.memory.dropped}

    def _memory_from_dict(self, parts: SavedParts) -> Subspace | Spectrum:
        basis = parts.orthonormal("basis", self.flat.size)
        if self.rank is None:
            return Subspace(basis)
        strength = parts.array("strength", basis.shape[1])
        parts.check(len(strength) <= self.rank and bool((strength > 0).all()), "strength")
        return Spectrum(basis, strength, np.zeros((len(strength), 0)), np.zeros(0), parts.number("dropped"))


def smallest_step(past: Subspace, J: Array, error: Array, tolerance: float) -> Array:
    """Return the smallest change (D,) orthogonal to `past` that changes the outputs by `error` (c,) (O1, O2)."""
    lengths = np.linalg.norm(J, axis=1)
    lengths[lengths == 0] = 1
    new = past.away((J / lengths[:, None]).T)  # (D, c): the tolerance is relative to each output's derivative (O1)
    left, strength, right = np.linalg.svd(new, full_matrices=False)
    kept = strength > tolerance
    return np.asarray(past.away(left[:, kept] @ ((right[kept] @ (error / lengths)) / strength[kept])))
