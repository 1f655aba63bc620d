"""What an editor says of its edits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EditSummary:
    """An edit in force."""

    rows: int
    size: float  # of the change it makes to the weights, relative to them
    missed: float  # distance of the answers to its keys from the wanted ones, relative to these
    cost: float  # how far the preserved answers move because of it, relative to them


@dataclass(frozen=True, slots=True)
class EditorReport:
    """What is preserved, what was edited, and how well both hold."""

    layer: str
    absorbed: int  # keys
    kept_energy: float  # share of their energy in the memory
    edits: int
    missed: float  # distance of all edited answers from the wanted ones, relative to these
    preserved_moved: float  # how far the preserved answers moved, relative to them; energy not kept counts as spread
    norm_ratio: float  # ‖W‖ / ‖W₀‖
    rounding: float  # distance of the layer's weights from those computed in float64, relative to W₀
    hard: bool  # whether preserved answers may not move at all
    precision: str  # of the layer

    def __str__(self) -> str:
        return (
            f"{self.layer}: {self.edits} edits, missed by {self.missed:.2g}; answers to {self.absorbed} absorbed keys "
            f"({self.kept_energy:.1%} of their energy kept) moved by {self.preserved_moved:.2g}; norm of the weights "
            f"times {self.norm_ratio:.4g}"
        )
