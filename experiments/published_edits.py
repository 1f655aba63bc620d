"""ROME, MEMIT and AlphaEdit in their published form: float32, an explicit inverse or a general solve.

C = mean k kᵀ of the absorbed keys, W (outputs, inputs), K (edits, inputs), R = V − K Wᵀ what is missing now:

    ROME       W += r (C⁻¹k)ᵀ / kᵀC⁻¹k                      one fact after the other                            (P1)
    MEMIT      Wᵀ += (λC + KᵀK)⁻¹ Kᵀ R                                                                          (P2)
    AlphaEdit  Wᵀ += (P (KₚᵀKₚ + KᵀK) + μI)⁻¹ P Kᵀ R         P: eigenvectors of C with eigenvalues below a threshold,
                                                            Kₚ: keys of earlier edits                           (P3)

Each of them changes the weights it finds and keeps no record from which one edit could be taken back.
"""

from typing import Protocol

import torch
from torch import Tensor


class Published(Protocol):
    """A method that turns keys (n, d), what is missing (n, c) into a change of the weights (c, d)."""

    def change(self, K: Tensor, R: Tensor) -> Tensor: ...


class Rome:
    """(P1); `damping` times the mean eigenvalue is added to C, 0 as published."""

    def __init__(self, C: Tensor, damping: float) -> None:
        self.inverse = torch.inverse(C + damping * C.trace() / len(C) * torch.eye(len(C)))

    def change(self, K: Tensor, R: Tensor) -> Tensor:
        if len(K) != 1:
            raise ValueError(f"expected one fact at a time, got {len(K)}")
        along = self.inverse @ K[0]
        return torch.outer(R[0], along / (K[0] @ along))


class Memit:
    """(P2)."""

    def __init__(self, C: Tensor, strength: float) -> None:
        self.C, self.strength = C, strength

    def change(self, K: Tensor, R: Tensor) -> Tensor:
        return (torch.inverse(self.strength * self.C + K.T @ K) @ K.T @ R).T


class AlphaEdit:
    """(P3); the threshold is relative to the mean eigenvalue of C."""

    def __init__(self, C: Tensor, threshold: float, ridge: float) -> None:
        values, vectors = torch.linalg.eigh(C)
        free = vectors[:, values < threshold * values.mean()]
        self.P, self.ridge, self.earlier = free @ free.T, ridge, torch.zeros_like(C)

    def change(self, K: Tensor, R: Tensor) -> Tensor:
        self.earlier = self.earlier + K.T @ K
        left = self.P @ self.earlier + self.ridge * torch.eye(len(self.P))
        return torch.linalg.solve(left, self.P @ K.T @ R).T


def second_moment(keys: Tensor) -> Tensor:
    """C (d, d) of keys (n, d), in float32."""
    return keys.T @ keys / len(keys)
