"""Inspecting a model file: what it has learned, and certificates that its parts agree.

Rᵀ(RW − z) + λ(W − θ⁰) = 0                                       (N)   the weights solve the normal equations
κ₁(F)                                                            (K)   condition of F, the root with its prior
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remanence.certificates.certificate import Certificate, likely, rounding
from remanence.errors import InputError
from remanence.store.format.safetensors_file import parse, read_bytes
from remanence.store.jobs.holdings import Holdings
from remanence.store.jobs.session import LEARNED_IN_PYTHON, keeps_all, rows_of
from remanence.store.model_file import Description, ModelFile, describe, from_bytes, naming

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a model file holds."""

    description: Description
    counts: dict[Any, int]  # class: its number of rows
    ridge: float | None  # in force; with "auto" the one that was chosen
    condition: float | None  # (K)
    certificates: tuple[Certificate, ...]
    pieces: int | None = None  # number of learners of single pieces, if they are kept
    every_row: bool = False  # whether its ledger knows every row
    readout: str | None = None  # of a classifier; with "auto" the one that was chosen
    calibration: dict[str, float] | None = None  # of answers to rows before they were learned
    class_weight: Any = None  # of a classifier
    scale: str | None = None

    @property
    def holds(self) -> bool:
        """Whether no certificate fails."""
        return all(certificate.status != "fails" for certificate in self.certificates)

    def to_dict(self) -> dict[str, Any]:
        """The inspection as JSON has it."""
        file, summary = self.description, self.description.summary
        return {
            "kind": summary.get("kind"),
            "rows": summary.get("rows", 0),
            "classes": list(self.counts) or summary.get("labels", []),
            "counts": list(self.counts.values()),
            "features": summary.get("features"),
            "columns": file.notes.get("columns", summary.get("feature names", [])),
            "kinds": file.notes.get("kinds", dict.fromkeys(file.notes.get("columns", []), "number")),
            "missing": file.notes.get("missing", "refuse"),
            "label": file.notes.get("label"),
            "label separator": file.notes.get("label separator"),
            "targets": file.notes.get("targets", []),
            "ignored": file.notes.get("ignored", []),
            "method": summary.get("method"),
            "settings": summary.get("settings", {}),
            "encoder": summary.get("encoder"),
            "csv": file.notes.get("csv", {}),
            "known by": "rows" if self.every_row else "pieces",
            "undo": "pieces" if self.pieces is not None else "rows",
            "precision": summary.get("precision"),
            "readout": self.readout,
            "class weight": self.class_weight,
            "scale": self.scale,
            "ridge": self.ridge,
            "condition": self.condition,
            "calibration": self.calibration,
            "bytes": file.size,
            "library": file.library,
            "ledger": [
                {"name": e.name, "rows": int(e.rows), "action": e.action, "when": e.when, "fingerprint": e.fingerprint}
                for e in file.ledger
            ],
            "certificates": [certificate.to_dict() for certificate in self.certificates],
        }


def inspect_file(path: str | Path) -> Inspection:
    """Read a model file and check it; a damaged one is a FileError."""
    path = Path(path)
    description = describe(path)
    with naming(path):
        content = read_bytes(path)
        parse(content)  # checks the checksum before anything is certified
    try:
        with naming(path):
            model = from_bytes(content, predict_only=True)
    except InputError:  # its encoder or its network is not in the file
        return Inspection(description, {}, None, None, ())
    learner = model.learner
    known = vars(learner) if hasattr(learner, "__dict__") else {}  # (pairs and results of rm.kalman have no names)
    counts = dict(zip(known["classes_"].tolist(), _counts(known), strict=True)) if "class_count_" in known else {}
    found = _solution(learner) if "state_" in known else None
    lost = _precision_certificate(learner) if found is not None else None
    certificates = []
    if len(model.ledger) and "method" in known:
        certificates.append(_ledger_certificate(model, learner, lost))
    if counts and "multilabel_" not in known:
        gap = abs(sum(counts.values()) - rows_of(learner))
        claim = "every row is counted in one class"
        certificates.append(
            Certificate(claim, "its counts", (f"{len(counts)} classes",), gap, 0, "bound", "class-counts")
        )
    pieces = None if model.pieces is None else len(model.pieces)
    every = model.row_keys is not None and model.row_keys.every
    readout = learner.readout_ if "readout" in known and "state_" in known else None
    answers = _calibration(learner) if counts else None
    ridge = condition = None
    if found is not None and lost is not None:
        ridge, condition = found.ridge, found.condition
        certificates += [found.equations, found.determined, lost]
    found_so = (pieces, every, readout, answers, known.get("class_weight"), known.get("scale"))
    return Inspection(description, counts, ridge, condition, tuple(certificates), *found_so)


def _calibration(learner: Any) -> dict[str, float] | None:
    """How good the answers were that the model gave to rows before it learned them; None where none were counted."""
    known = learner.calibration_
    figures = {"rows": known.rows, "accuracy": known.accuracy, "log_loss": known.log_loss}
    return {**figures, "calibration_error": known.error} if known.rows > 0 else None


def _counts(known: dict[str, Any]) -> list[int]:
    return [int(count) for count in known["class_count_"]]


def _precision_certificate(learner: Any) -> Certificate:
    """A bound on the precision lost by unlearning, as the memory tracks it."""
    from remanence.methods.precision import PROMISED

    dtype = np.dtype(learner.dtype)
    return Certificate(
        "predictions have the promised precision after all that was unlearned",
        "the bound that the memory carries",
        (f"precision {np.finfo(dtype).eps:.0e}",),
        learner.precision_loss_,
        PROMISED[dtype],
        "bound",
        "precision",
    )


def _ledger_certificate(model: ModelFile, learner: Any, lost: Certificate | None) -> Certificate:
    """The ledger says which rows are in; RLS that keeps everything is a function of those rows alone.

    It knows pieces of rows, so that is what can be certified: a row that stands in two of them counts twice.
    """
    held = Holdings.of(model.ledger, model.notes)
    every = model.row_keys is not None and model.row_keys.every
    pieces, loose = held.ledger.in_force(), 0 if every else held.rows_loose()
    unmet = ""
    if not keeps_all(learner):
        unmet = f"{type(learner.method).__name__} here is no sum over rows that weigh the same; RLS with forget=1 is"
    elif any(entry.name == LEARNED_IN_PYTHON for entry in pieces.values()):
        unmet = "it was taught in Python too, and of those rows the ledger knows only how many there were"
    elif loose:
        unmet = f"{loose} rows were unlearned on trust, and whether they had been learned is not known"
    elif lost is not None and not lost.holds:
        unmet = "unlearning cost more digits than promised"
    listed = (
        len(model.row_keys.words) if model.row_keys is not None and every else sum(map(held.rows_in, pieces)) - loose
    )
    gap = abs(held.ledger.rows() - rows_of(learner)) + abs(listed - held.ledger.rows())
    return Certificate(
        "equals training at once on every piece its ledger lists, as often as it is listed, without the rows unlearned",
        "RLS with forget=1 is exact; pieces are known by content, so a row that stands in two of them counts twice",
        (f"{held.ledger.rows()} rows in {len(pieces)} pieces by the ledger", f"{rows_of(learner)} rows in the model"),
        gap,
        0,
        "bound",
        "ledger",
        unmet,
    )


@dataclass(frozen=True, slots=True)
class _Solution:
    ridge: float
    condition: float
    equations: Certificate
    determined: Certificate


def _solution(learner: Any) -> _Solution | None:
    """How well the weights solve the problem they stand for; None where the memory is no root that keeps all rows."""
    from remanence.methods import RLS

    method, state = RLS() if learner.method is None else learner.method, learner.state_
    if not isinstance(method, RLS) or method.forget != 1:
        return None
    state = state.as_least_squares("inspect")
    data, ridge = method.data(state), method.ridge_of(state)
    R, z, W = (np.asarray(part, float) for part in (data.factor, data.target, method.weights(state)))
    d, free, eps = len(R), state.unpenalized, float(np.finfo(data.dtype).eps)
    weights = state.prior_weights(method._schedule, ridge, data)
    if not state.scaled:
        ridge = float(weights)  # what rounding leaves of the setting, where that is smaller
    prior = np.array(np.broadcast_to(weights, d), float)[:, None]
    prior[:free] = 0
    off = R.T @ (R @ W - z) + prior * (W - state.start)  # (N)
    root, size = np.linalg.norm(R) + np.sqrt(prior.sum()), np.linalg.norm(W)
    start = float(np.linalg.norm(np.sqrt(prior) * state.start))
    scale = float(root * (root * size + np.linalg.norm(z) + start))
    condition = _condition(data.with_prior(weights, state.start, free).factor)
    equations = Certificate(
        "the weights solve the normal equations of the memory",
        "least squares over all rows",
        (f"{d} features", f"ridge {ridge:g}", f"precision {eps:.0e}"),
        float(np.linalg.norm(off)) / max(scale, float(np.finfo(float).tiny)),
        rounding(eps / EPS, likely(4 * d * (d + 2))),  # d reflections of 2d rows, two passes each; a solve, a residual
        name="normal-equations",
    )
    determined = Certificate(
        "the rows and the ridge determine the weights in this precision",
        "precision times the condition of the root",
        (f"condition {condition:.1e}",),
        eps * condition,
        1.0,
        "bound",
        "determined",
    )
    return _Solution(ridge, condition, equations, determined)


def _condition(factor: Any) -> float:
    """κ₁ of a triangular matrix, as LAPACK estimates it (K)."""
    from scipy.linalg import get_lapack_funcs

    (trcon,) = get_lapack_funcs(("trcon",), (factor,))
    reciprocal, _ = trcon(factor)
    return float(1 / reciprocal) if reciprocal > 0 else float("inf")
