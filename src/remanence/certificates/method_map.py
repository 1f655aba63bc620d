"""The paper's last figure as data: fifteen methods, and the twenty lines between them.

A line says that two methods are equal, or that one is a special case or a limit of the other. Each is checked by a
claim that names it (`edge=`); the direction in which it is named does not matter.
"""

from dataclasses import dataclass
from typing import Literal

Made = Literal["linear", "nonlinear", "deep"]
Edge = tuple[str, str]
Place = tuple[float, float]  # right, up


@dataclass(frozen=True, slots=True)
class Node:
    """A method: its name, what models it was first proposed for, and where it stands in the picture."""

    name: str
    made_for: Made
    place: Place


NODES: tuple[Node, ...] = (
    Node("LMS", "linear", (3.0, 2.2)),
    Node("APA", "linear", (3.0, 1.4)),
    Node("Min-Norm", "linear", (4.0, 2.8)),
    Node("ICL", "nonlinear", (4.0, 1.4)),
    Node("ORFit", "nonlinear", (5.2, 2.8)),
    Node("OGD", "nonlinear", (5.2, 1.4)),
    Node("GP", "deep", (5.2, 0.0)),
    Node("RLS", "linear", (2.0, 1.4)),
    Node("D-RLS", "linear", (1.2, 2.2)),
    Node("OWM", "deep", (4.0, 0.0)),
    Node("EBP", "deep", (3.0, 0.0)),
    Node("Linearized RLS", "nonlinear", (2.0, 0.0)),
    Node("KF", "linear", (1.0, 1.4)),
    Node("EKF", "nonlinear", (1.0, 0.0)),
    Node("RTS", "linear", (0.0, 0.0)),
)

EDGES: tuple[Edge, ...] = (
    ("APA", "LMS"),
    ("APA", "Min-Norm"),
    ("APA", "ICL"),
    ("ICL", "Min-Norm"),
    ("ORFit", "Min-Norm"),
    ("ORFit", "ICL"),
    ("ORFit", "OGD"),
    ("GP", "OGD"),
    ("RLS", "Min-Norm"),
    ("RLS", "APA"),
    ("D-RLS", "RLS"),
    ("KF", "RLS"),
    ("RTS", "KF"),
    ("EKF", "KF"),
    ("Linearized RLS", "RLS"),
    ("EKF", "Linearized RLS"),
    ("RLS", "EBP"),
    ("RLS", "OWM"),
    ("GP", "OWM"),
    ("EBP", "OWM"),
)

# A line that would run through another method goes around it.
CORNERS: dict[Edge, Place] = {("RLS", "Min-Norm"): (2.0, 2.8)}

# These two methods exist for networks only: their lines can be checked where torch is installed.
NEEDS_TORCH = frozenset({"EBP", "OWM"})


def edge_between(one: str, other: str) -> Edge | None:
    """The line between two methods as the map writes it, or None if it draws none."""
    return next((edge for edge in EDGES if set(edge) == {one, other}), None)
