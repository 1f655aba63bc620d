"""Certificates: a claim, its source and conditions, what was measured and what is allowed.

    u = eps/2,   γ(n) = n u / (1 − n u)                                          (C1)   n roundings in a row
    |computed − exact| ≤ γ(n) κ |exact|                                          (C2)   κ: how much a problem magnifies

It is evidence on an instance, not a proof. Three kinds: an *identity* is equal up to rounding, and what rounding may do
is (C2) with the condition number the conditions name; a *bound* compares the two sides of an inequality on this run; a
*statistical* one compares a mean over seeds with what it should be, within an interval whose error rate is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from remanence.arrays import Array
from remanence.errors import InputError
from remanence.files import json_value
from remanence.validation import check_number, check_numbers

Kind = Literal["identity", "bound", "statistical"]
Status = Literal["holds", "fails", "does not apply"]

ERROR_RATE = 1e-6  # of a statistical certificate: how often chance alone makes a true claim fail


@dataclass(frozen=True, slots=True)
class Certificate:
    """Evidence for one claim; printing it gives a sentence.

    Parameters
    ----------
    claim, source : str
        The statement, and where it is in the paper.
    conditions : tuple of str
        Conditions of the measurement.
    measured, allowed : float
        It holds when the first is at most the second.
    kind : "identity", "bound" or "statistical"
        Equal up to rounding, an inequality, or a mean over seeds within its interval.
    name : str
        Name of the function that checked it.
    unmet : str
        The condition that is not met, if the claim does not apply.

    Examples
    --------
    >>> import remanence as rm
    >>> certificate = rm.certificates.Certificate("ICL reaches the minimum", "Theorem 5", ("cond 2",), 1e-15, 1e-12)
    >>> certificate.holds, certificate.status
    (True, 'holds')
    >>> print(certificate)
    ICL reaches the minimum (Theorem 5): holds, error 1.0e-15, rounding allows 1.0e-12; cond 2
    """

    claim: str
    source: str
    conditions: tuple[str, ...]
    measured: float
    allowed: float
    kind: Kind = "identity"
    name: str = ""
    unmet: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"expected kind to be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        object.__setattr__(self, "conditions", tuple(self.conditions))
        object.__setattr__(self, "measured", float(self.measured))
        object.__setattr__(self, "allowed", float(self.allowed))

    @property
    def holds(self) -> bool:
        """Whether the claim applies and measured ≤ allowed; False if either is NaN."""
        return not self.unmet and bool(self.measured <= self.allowed)

    @property
    def status(self) -> Status:
        """ "holds", "fails" or "does not apply"."""
        return "does not apply" if self.unmet else "holds" if self.holds else "fails"

    @property
    def strain(self) -> float:
        """measured / allowed: at most 1 when it holds, infinite when either is NaN."""
        if np.isnan(self.measured) or np.isnan(self.allowed):
            return float("inf")
        if self.allowed > 0:
            return self.measured / self.allowed
        return 0.0 if self.measured <= self.allowed else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """The certificate as a dictionary for JSON; infinity and NaN, which JSON lacks, become text."""
        return {
            "name": self.name,
            "claim": self.claim,
            "source": self.source,
            "kind": self.kind,
            "conditions": list(self.conditions),
            "measured": json_value(self.measured),
            "allowed": json_value(self.allowed),
            "holds": self.holds,
            "status": self.status,
            "unmet": self.unmet,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Certificate":
        """The certificate from a dictionary made by `to_dict`."""
        try:
            texts = (str(data["claim"]), str(data["source"]))
            numbers = (float(data["measured"]), float(data["allowed"]))
            return cls(*texts, tuple(data["conditions"]), *numbers, data["kind"], str(data["name"]), str(data["unmet"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(f"expected a dictionary made by Certificate.to_dict, got {problem!r}") from None

    def __str__(self) -> str:
        given = f"; {', '.join(self.conditions)}" if self.conditions else ""
        if self.unmet:
            return f"{self.claim} ({self.source}): does not apply, as {self.unmet}"
        verdict = "holds" if self.holds else "FAILS"
        sign = "≤" if self.measured <= self.allowed else "is not within"
        said = {
            "identity": f"error {self.measured:.1e}, rounding allows {self.allowed:.1e}",
            "bound": f"{self.measured:.3g} {sign} {self.allowed:.3g}",
            "statistical": f"{self.measured:.2e} from the expected value, chance allows {self.allowed:.2e}",
        }[self.kind]
        return f"{self.claim} ({self.source}): {verdict}, {said}{given}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a check measured, what is allowed, and what it depended on; `unmet` if the claim does not apply at all."""

    measured: float
    allowed: float
    conditions: tuple[str, ...] = ()
    unmet: str = ""


def not_applicable(condition: str) -> Evidence:
    """The evidence of a check on data that its claim does not cover."""
    return Evidence(float("nan"), float("nan"), unmet=condition)


def rounding(kappa: float, size: float) -> float:
    """The error that rounding may cause, relative to the exact result (C2).

    `kappa` is the condition number of what is computed; `size` is the number of consecutive operations behind one
    number of the result, like rows × features. There is no constant to choose.
    """
    kappa, size = check_number(kappa, "kappa", closed=True), check_number(size, "size", closed=True)
    lost = size * float(np.finfo(float).eps) / 2
    return kappa * lost / (1 - lost) if lost < 1 else float("inf")


def likely(operations: float) -> float:
    """8√n, for `rounding` of long runs: the size of n independent rounding errors.

    If they are independent and have no bias, more has a chance below 2 exp(−8²/2), or 3e-14 (Higham and Mary 2019); the
    worst case n would let single precision get away with anything.
    """
    return min(8 * float(np.sqrt(operations)), operations)


def condition(X: Array) -> float:
    """The condition number of the rows of X among the directions they span: largest over smallest singular value."""
    strengths = np.linalg.svd(X, compute_uv=False)
    seen = strengths[strengths > max(X.shape) * np.finfo(float).eps * strengths[0]] if strengths[0] > 0 else strengths
    return float(seen[0] / seen[-1]) if seen[-1] > 0 else 1.0


def difference(computed: Array, exact: Array, scale: float | None = None) -> float:
    """‖computed − exact‖ relative to `scale`, which is ‖exact‖ unless given; NaN stays NaN, and a NaN never holds."""
    size = float(np.linalg.norm(exact)) if scale is None else scale
    return float(np.linalg.norm(np.asarray(computed) - exact)) / max(size, float(np.finfo(float).tiny))


def interval(samples: Array, low: float, high: float, error_rate: float = ERROR_RATE) -> float:
    """Half the width of an interval around the mean of independent samples in [low, high] that misses the true mean
    with at most this probability (empirical Bernstein, Maurer and Pontil 2009): no normality is assumed.
    """
    samples = check_numbers(samples, "samples", np.float64)
    if samples.ndim != 1 or len(samples) < 2:
        raise InputError(f"expected at least two samples of shape (n,), got {samples.shape}")
    if not (samples.min() >= low and samples.max() <= high):
        raise InputError(f"expected samples in [{low:g}, {high:g}], got [{samples.min():g}, {samples.max():g}]")
    n, log_term = len(samples), np.log(4 / check_number(error_rate, "error_rate", high=1.0))
    spread = np.sqrt(2 * samples.var(ddof=1) * log_term / n)
    return float(spread + 7 * (high - low) * log_term / (3 * (n - 1)))
