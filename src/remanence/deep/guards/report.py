"""Reports of what a guard protects and how far outputs have drifted; printing one gives a table or a sentence."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerReport:
    """How much of one layer's input space is protected, and how far its outputs have drifted.

    Parameters
    ----------
    name : str
        Name of the layer.
    inputs : int
        Inputs including the constant one, over all groups.
    rank : int
        Number of protected directions.
    used : float
        The rank, where a softly protected direction counts by its strength.
    rows : int
        Input rows absorbed.
    drift : float
        Root mean square change of the layer's outputs on everything absorbed, relative to the outputs.
    kept : float
        Share of the inputs' energy in the memory: 1, or less for memory="lowrank".

    Examples
    --------
    >>> import remanence as rm
    >>> rm.deep.LayerReport("head", inputs=10, rank=4, used=4.0, rows=100, drift=0.0).capacity
    0.4
    """

    name: str
    inputs: int
    rank: int
    used: float
    rows: int
    drift: float
    kept: float = 1.0

    @property
    def capacity(self) -> float:
        """The used share of the layer's input space, 0 to 1."""
        return self.used / self.inputs


@dataclass(frozen=True)
class GuardReport:
    """What a layer guard protects, by layer; printing it gives a table.

    Parameters
    ----------
    kind : str
        Class name of the guard.
    tasks : int
        Tasks absorbed.
    layers : tuple of LayerReport
        One report per layer.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> guard = rm.deep.GradientProjection(torch.nn.Sequential(torch.nn.Linear(4, 2)))
    >>> print(guard.absorb([torch.eye(4)[:3]]))
    GradientProjection after 1 tasks
    layer  protected      full  drift
    0         3 of 5       60%  0.0e+00
    """

    kind: str
    tasks: int
    layers: tuple[LayerReport, ...]

    def __str__(self) -> str:
        width = max([len(layer.name) for layer in self.layers] + [5])
        lines = [f"{self.kind} after {self.tasks} tasks", f"{'layer':<{width}}  protected      full  drift"]
        lines += [
            f"{r.name:<{width}}  {r.rank:>4} of {r.inputs:<5} {r.capacity:>5.0%}  {r.drift:.1e}" for r in self.layers
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class GradientReport:
    """What `OGD` protects; printing it gives a sentence.

    Parameters
    ----------
    kind : str
        Class name of the guard.
    tasks : int
        Tasks absorbed.
    parameters : int
        Number of protected parameters D.
    rank : int
        Directions in the memory.
    bound : int
        Directions the memory has room for.
    rows : int
        Gradients absorbed.
    dropped : float
        Squared length of the gradients that was discarded.
    kept : float
        Share of the gradients' squared length that is protected.

    Examples
    --------
    >>> import torch, remanence as rm
    >>> guard = rm.deep.OGD(torch.nn.Linear(4, 1), rank=3)
    >>> guard.absorb([torch.eye(4)[:2]]).rank
    2
    """

    kind: str
    tasks: int
    parameters: int
    rank: int
    bound: int
    rows: int
    dropped: float
    kept: float

    @property
    def capacity(self) -> float:
        """The used share of the memory, 0 to 1."""
        return self.rank / self.bound

    def __str__(self) -> str:
        return (
            f"{self.kind} after {self.tasks} tasks: {self.rank} directions of {self.parameters} parameters (at most "
            f"{self.bound}), {self.kept:.2%} of the squared length of {self.rows} gradients"
        )
