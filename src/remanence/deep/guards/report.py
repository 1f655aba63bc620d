"""What a guard protects and what it let move, as a value that prints as a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerReport:
    """One layer: how much of its input space is protected, and how far its answers have moved."""

    name: str
    inputs: int  # with the constant one, over all groups
    rank: int
    used: float  # the rank, a softly protected direction counting by its strength
    rows: int
    drift: float  # root mean square movement of its answers on all it has seen, relative to the answers

    @property
    def capacity(self) -> float:
        """The share of the layer's input space that is used up, 0 to 1."""
        return self.used / self.inputs


@dataclass(frozen=True)
class GuardReport:
    """What a guard protects, layer by layer; printing it gives a table."""

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
    """What a guard of all parameters together protects; printing it gives a sentence."""

    kind: str
    tasks: int
    parameters: int
    rank: int
    bound: int  # directions that the memory has room for
    rows: int  # gradients seen
    dropped: float  # their squared length that found no room
    kept: float  # share of their squared length that is protected

    @property
    def capacity(self) -> float:
        """The share of the memory's room that is used up, 0 to 1."""
        return self.rank / self.bound

    def __str__(self) -> str:
        return (
            f"{self.kind} after {self.tasks} tasks: {self.rank} directions of {self.parameters} parameters, room for "
            f"{self.bound}, holding {self.kept:.2%} of {self.rows} gradients"
        )
