"""The inputs of a wide layer in bounded memory: their leading singular directions, in the interface of a root.

    R = diag(s) Vᵀ,   at most `rank` rows          (Q1)   instead of the d × d factor of memory/root.py

What is cut off is counted: `kept` is the share of the inputs' energy that remains. While nothing is cut off, it is the
same memory as the full one.
"""

from dataclasses import dataclass, replace

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root, empty
from remanence.memory.truncated_svd import Spectrum, no_spectrum

AT_ONCE = 512  # rows: each fold costs a singular value decomposition of rank + rows


@dataclass(frozen=True)
class LowRankRoot:
    """The strongest directions of a layer's inputs, with the rotated outputs."""

    spectrum: Spectrum
    rank: int

    @property
    def factor(self) -> Array:  # (rank, d), rows of zeros if fewer directions are used
        return _padded(self.spectrum.rows(), self.rank)

    @property
    def target(self) -> Array:  # (rank, c)
        return _padded(self.spectrum.target, self.rank)

    @property
    def rest(self) -> Array:
        return self.spectrum.rest

    @property
    def dropped(self) -> float:
        return self.spectrum.dropped

    @property
    def kept(self) -> float:
        """The share of the inputs' energy that is kept, 0 to 1."""
        whole = self.spectrum.kept() + self.dropped
        return self.spectrum.kept() / whole if whole else 1.0

    def within(self, share: float) -> "LowRankRoot":
        """With the fewest directions that hold this share of the inputs' energy, or all if they hold less."""
        energies = self.spectrum.strength**2
        enough = share * (self.spectrum.kept() + self.dropped)
        r = min(int(np.searchsorted(np.cumsum(energies), enough)) + 1, len(energies))
        basis, target = self.spectrum.basis[:, :r], self.spectrum.target
        rest, dropped = self.rest + (target[r:] ** 2).sum(0), self.dropped + float(energies[r:].sum())
        return replace(self, spectrum=Spectrum(basis, self.spectrum.strength[:r], target[:r], rest, dropped))

    def folded(self, X: Array, Y: Array, donate: bool = False) -> "LowRankRoot":
        """With the rows X (n, d) and their outputs Y (n, c)."""
        spectrum = self.spectrum
        for k in range(0, len(X), AT_ONCE):
            spectrum = spectrum.absorbed(X[k : k + AT_ONCE], Y[k : k + AT_ONCE], self.rank)
        return replace(self, spectrum=spectrum)

    def merged(self, other: "LowRankRoot", donate: bool = False) -> "LowRankRoot":
        """With everything that another memory holds."""
        both = self.spectrum.absorbed(other.spectrum.rows(), other.spectrum.target, self.rank)
        return replace(self, spectrum=replace(both, rest=both.rest + other.rest, dropped=both.dropped + other.dropped))

    def with_outputs(self, sources: Array) -> "LowRankRoot":
        """For a layer with other outputs."""
        return replace(self, spectrum=self.spectrum.with_outputs(sources))


LayerRoot = Root | LowRankRoot


def empty_root(inputs: int, outputs: int, rank: int | None) -> LayerRoot:
    """Return the memory of no inputs; `rank` bounds it, None keeps every direction."""
    return empty(inputs, outputs) if rank is None else LowRankRoot(no_spectrum(inputs, outputs), min(rank, inputs))


def root_from_arrays(factor: Array, target: Array, rest: Array, rank: int | None, dropped: float = 0.0) -> LayerRoot:
    """Return the memory that these arrays are the parts of."""
    if rank is None:
        return Root(*(np.array(part, order="F") for part in (factor, target, rest)))
    strength = np.linalg.norm(factor, axis=1)
    used = strength > 0
    spectrum = Spectrum(
        np.ascontiguousarray((factor[used] / strength[used, None]).T), strength[used], target[used], rest, dropped
    )
    return LowRankRoot(spectrum, len(factor))


def dropped_energy(root: LayerRoot) -> float:
    """Return the energy of the inputs that a memory has cut off."""
    return root.dropped if isinstance(root, LowRankRoot) else 0.0


def with_targets(root: LayerRoot, W: Array) -> LayerRoot:
    """Return the memory of the same inputs with the outputs of another matrix W (c, d)."""
    rank = root.rank if isinstance(root, LowRankRoot) else None
    return root_from_arrays(root.factor, root.factor @ W.T, np.zeros(len(W)), rank, dropped_energy(root))


def _padded(rows: Array, count: int) -> Array:
    return np.concatenate([rows, np.zeros((count - len(rows), rows.shape[1]))])
