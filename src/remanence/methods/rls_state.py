"""What RLS has learned, as a value: the data's square root, rows at its door, and the prior beside it."""

from dataclasses import dataclass, field
from typing import Literal

from remanence.arrays import Array
from remanence.memory.pending_rows import Waiting
from remanence.memory.root import Root


@dataclass(slots=True)
class Known:
    """What was worked out for a state when someone asked; forgetting it changes no number."""

    posterior: Root | None = None  # all rows, and the prior
    weights: Array | None = None
    ridge: float | None = None


@dataclass(slots=True)
class Owner:
    """Whether other states hold the same arrays: then even a state that is given away may not be written to."""

    shared: bool = False


@dataclass(frozen=True, slots=True)
class RLSState:
    """The square root of the data's information, the rows at its door, and the prior beside it."""

    data: Root  # folded rows alone, no prior
    waiting: Waiting  # rows learned after them, not folded yet
    start: Array  # (d, c) θ⁰
    count: int  # rows learned, waiting ones included
    ridge: float | Literal["auto"]
    free: int = 0  # leading features without a prior: an intercept
    known: Known = field(default_factory=Known, repr=False, compare=False)
    owner: Owner = field(default_factory=Owner, repr=False, compare=False)
