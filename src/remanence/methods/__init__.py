"""One file a method; each is settings plus a memory, and they differ only in what they remember of the past."""

from typing import Any, NamedTuple

from remanence.methods.apa import APA
from remanence.methods.icl import ICL
from remanence.methods.lms import LMS
from remanence.methods.lowrank_rls import LowRankRLS
from remanence.methods.min_norm import min_norm
from remanence.methods.ogd import OGD
from remanence.methods.orfit import ORFit
from remanence.methods.protocol import Method
from remanence.methods.rls import RLS

__all__ = ["APA", "ICL", "LMS", "OGD", "RLS", "Entry", "LowRankRLS", "Method", "ORFit", "list_methods", "min_norm"]


class Entry(NamedTuple):
    """What the registry says of a method."""

    method: type[Method[Any]]
    summary: str
    cost: str
    memory: str


def list_methods() -> dict[str, Entry]:
    """Every linear method: its class, one line on what it is, and cost and memory a sample."""
    return {m.__name__: Entry(m, m.summary, m.cost, m.memory) for m in (LMS, APA, ICL, OGD, ORFit, RLS, LowRankRLS)}
