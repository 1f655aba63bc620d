"""Validate input where it enters the library, so that the code behind can rely on it.

An error says what was expected, what was passed and what to try, and it is raised before anything has changed.
"""

import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from remanence.arrays import Array, aligned, read_only, squared_sum  # noqa: F401 (read_only: remanence.checks had it)
from remanence.errors import InputError, NumericalError

try:
    PHYSICAL = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))  # bytes of memory of this machine
except (AttributeError, OSError, ValueError):  # (a system that does not say)
    PHYSICAL = float("inf")

# What overflows on the way is found at the end (check_result) and refused; it need not be announced on top.
quiet = np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")

LARGEST = {np.dtype(np.float64): 1e150, np.dtype(np.float32): 1e15}  # sums of squares of these are still finite


def check_numbers(values: Any, name: str, dtype: npt.DTypeLike) -> Array:
    """Values as an array of this precision, or a refusal of what are no numbers; complex ones only where it is."""
    if type(values) is np.ndarray and values.dtype == dtype:  # the common case, without ceremony
        return aligned(values)
    check_unmasked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and all(isinstance(v, (int, float, np.number)) for v in array.flat):
            array = array.astype(float)
        complex_too = np.dtype(dtype).kind == "c"
        if array.dtype.kind == "c" and not complex_too:
            raise InputError(
                f"expected {name} to hold real numbers, got {array.dtype}. Complex data not supported: "
                f"pass real and imaginary parts as columns of their own, or begin a state of RLS, LMS, BlockLMS, "
                f"APA, ICL or Kalman with dtype=complex128"
            )
        if array.dtype.kind not in ("fiubc" if complex_too else "fiub"):
            raise TypeError
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise InputError(
            f"expected {name} to hold real numbers, got {type(values).__name__} of {_kind(values)}; "
            f"encode text and dates as numbers first"
        ) from None
    with np.errstate(over="ignore"):  # what becomes infinite in single precision is refused as such
        return aligned(array.astype(dtype, copy=False))


def _kind(values: Any) -> str:
    try:
        return f"dtype {np.asarray(values).dtype}"
    except ValueError:
        return "rows of unequal length"
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError):
        return "no array"


def check_unmasked(values: Any, name: str) -> None:
    """Refuse masked entries: what is under a mask is not meant to be read, and an array would show it."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = int(np.ma.getmaskarray(values).sum())
        raise InputError(
            f"expected {name} without masked entries, got {masked}; drop (np.ma.compress_rows) or impute those rows"
        )


def check_finite(array: Array, name: str) -> None:
    """Refuse NaN, infinity and magnitudes whose squares overflow; one pass in the good case."""
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(array.dtype.char.lower())
    if squared_sum(array) < (1e280 if array.dtype == np.float64 else 1e28):  # neither NaN, nor infinite, nor huge
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(array).all():
            raise InputError(f"{name} contains NaN or infinity; drop or impute those rows before learning")
        largest = float(np.abs(array).max())
    check_magnitude(largest, array.dtype, name)


def check_magnitude(largest: float, dtype: Any, name: str) -> None:
    """Refuse numbers of which the largest has a square that is too large to be summed."""
    limit = LARGEST[dtype]
    if largest > limit:
        raise InputError(f"expected {name} within ±{limit:.0e} for {dtype}, got {largest:.1e}; rescale the data")


def check_rows(X: Any, features: int, dtype: npt.DTypeLike = np.float64, finite: bool = True) -> Array:
    """X as an array of shape (rows, features), or a clear refusal."""
    rows = check_numbers(X, "X", dtype)
    if rows.ndim != 2 or rows.shape[1] != features:
        raise InputError(f"expected X of shape (rows, {features}), got {rows.shape}; for one sample pass x[None, :]")
    if finite:
        check_finite(rows, "X")
    return rows


def check_block(X: Any, Y: Any, weights: Array, finite: bool = True) -> tuple[Array, Array]:
    """A block of samples to learn with weights W (features, outputs): X (n, features), Y (n, outputs), n ≥ 1."""
    features, outputs = weights.shape
    X = check_rows(X, features, weights.dtype, finite)
    Y = check_numbers(Y, "Y", weights.dtype)
    if Y.ndim != 2 or Y.shape[1] != outputs:
        raise InputError(f"expected Y of shape (rows, {outputs}), got {Y.shape}; for one output pass y[:, None]")
    if len(X) != len(Y):
        raise InputError(f"X has {len(X)} rows but Y has {len(Y)}; they must pair row by row")
    if not len(X):
        raise InputError("expected at least one row, got an empty block; skip empty batches")
    check_finite(Y, "Y")
    return X, Y


def check_start(start: Any, features: int, outputs: int, dtype: npt.DTypeLike = np.float64) -> Array:
    """The weights to begin from: a copy of `start`, or zeros."""
    for name, size in (("features", features), ("outputs", outputs)):
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"expected {name} to be a positive integer, got {size!r}")
    try:
        known = np.dtype(dtype) in LARGEST
    except TypeError:
        known = False
    if not known:
        raise InputError(
            f"expected dtype float64 or float32, got {dtype!r}; "
            f"complex numbers are learned by RLS, LMS, BlockLMS, APA, ICL and Kalman"
        )
    if start is None:
        needed = float(min(int(features) * int(outputs) * np.dtype(dtype).itemsize, 10**300))
        check_memory(needed, f"{features:.3g} features and {outputs:.3g} outputs", "use fewer of them")
        return np.zeros((features, outputs), dtype)
    start = check_numbers(start, "start", dtype)
    if start.shape != (features, outputs):
        raise InputError(
            f"expected start of shape ({features}, {outputs}), got {start.shape}; it is W, (features, outputs)"
        )
    check_finite(start, "start")
    return np.array(start)


def check_number(
    value: Any, name: str, low: float = 0.0, high: float = np.inf, closed: bool = False, hint: str = ""
) -> float:
    """A setting that must be a real number above `low` (or equal, if `closed`) and below `high`."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if good:
        number = int(value) if isinstance(value, (int, np.integer)) else float(value)  # (NumPy's do not compare beyond)
        good = abs(number) <= sys.float_info.max and (number > low or (closed and number == low)) and number < high
    if not good:
        lower = "at least" if closed else "above"
        within = "at most" if float(f"{high:g}") < high else "below"  # just above a round number: that is allowed
        upper = f" and {within} {high:g}" if np.isfinite(high) else ""
        raise InputError(
            f"expected {name} to be a number {lower} {low:g}{upper}, got {_shown(value)}{'; ' + hint if hint else ''}"
        )
    return float(value)


def check_count(value: Any, name: str, low: int = 1, hint: str = "") -> int:
    """A setting that must be an integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise InputError(
            f"expected {name} to be an integer of at least {low}, got {_shown(value)}{'; ' + hint if hint else ''}"
        )
    return int(value)


def _shown(value: Any) -> str:
    """A value in an error, shortened; an integer of more than 4300 digits has no text at all."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"{type(value).__name__} of too many digits"


def check_word(value: Any, name: str, known: tuple[str, ...]) -> str:
    """A setting that must be one of some words."""
    if not (isinstance(value, str) and value in known):
        raise InputError(f"expected {name} {' or '.join(map(repr, known))}, got {value!r:.60}")
    return value


def check_memory(size: float, what: str, hint: str) -> None:
    """Raise InputError before an allocation (bytes) beyond this machine's memory or this process's limit."""
    available = min(PHYSICAL, _address_space())
    if size > available:
        raise InputError(
            f"{what} would need {size / 1e9:.3g} GB of memory, but there are {available / 1e9:.3g} GB; {hint}"
        )


def _address_space() -> float:
    """The bytes this process may map; infinite where no limit is set."""
    if os.name != "posix":
        return float("inf")
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else float(limit)


def check_free(free: Any, features: int) -> None:
    """The number of leading features without a prior."""
    if check_count(free, "free", low=0, hint="the number of leading features without a prior") > features:
        raise InputError(f"expected free to be at most the {features} features, got {free}")


def check_result(*arrays: Array) -> None:
    """Our own answer must be finite; if it is not, say so instead of handing on NaN or infinity."""
    for array in arrays:
        if not np.isfinite(array).all():
            raise NumericalError(
                "the numbers overflowed and the result was not kept; scale X and Y to similar magnitudes, "
                "or use a smaller step"
            )
