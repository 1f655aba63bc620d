"""Block LMS in the frequency domain: long filters of signals at the cost of a few transforms.

    y_t = Σₖ Wₖᵀ x_{t−k},  k = 0 … n−1;      within a block of b samples W stays as it is                          (F1)
    Wₖ ← Wₖ + γ Σ_t x̄_{t−k} e_tᵀ             over the block, all k at once                                        (F2)
    (F1), (F2) as circular convolution and correlation of n + b samples (overlap-save), by FFT                     (F3)
    normalized: W ← W + γ min(l / (max(b, n) d), ‖e‖² / gᵀHg) Hg,  g the sum in (F2), H: every bin over its power,
                Pf ← δPf + (1−δ)|Xf|², in a transform of length l, then cut to n taps                             (F4)

The first bound in (F4) is the mean of the second one in signals that stay as they are. The second one holds when they
become louder or purer faster than P follows: for γ ≤ 1 no block without noise leads away from the taps that made it, as
(W − W*)ᵀH⁻¹(W − W*) changes by −2μ‖e‖² + μ²gᵀHg for a step μ.

A sample costs O(log n) operations instead of O(n). Errors are those of each sample before its block is learned. Signals
may be complex; x̄ in (F2) is the conjugate, which correlation by transforms takes anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.memory.root import take_outputs
from remanence.methods.protocol import Method
from remanence.methods.signals.complex_numbers import check_complex_start, is_complex
from remanence.validation import (
    check_block,
    check_count,
    check_memory,
    check_number,
    check_result,
    check_rows,
    check_start,
    quiet,
)

SMOOTH = 0.9  # δ
FLOOR = 1e-10  # the least power of a bin, relative to the mean of all


@dataclass(frozen=True, slots=True)
class BlockLMSState:
    """The taps, the samples that later ones need, the errors of the block that is not complete, and the powers."""

    W: Annotated[Array, "n d c complex"]
    signal: Annotated[Array, "* d complex squarable"]  # the last n − 1 samples and those of the block
    errors: Annotated[Array, "* c complex squarable"]  # of the block
    power: Annotated[Array, "* d float64"]  # P, empty before the first block
    count: int


@dataclass(frozen=True, slots=True)
class BlockLMS(Method[BlockLMSState]):
    """LMS for signals with many taps, block by block in the frequency domain (overlap-save).

    It is given the samples of the signals, not rows of past ones: X (n, signals), Y (n, outputs), and keeps the past it
    needs. `weights` are of shape (taps · signals, outputs), all signals of lag 0 first, then of lag 1, as for rows
    that `rm.streams.delay_line` makes of one signal. With `init(…, dtype=complex)` signals are complex.

    Parameters
    ----------
    taps : int, default=256
        n: how many past samples of each signal are used.
    step : float, default=0.5
        γ: with `normalized` between 0 and 1; without, 1 over the largest eigenvalue of Σ x xᵀ over a block is stable.
    block : int or None, default=None
        How many samples are learned at once; None is as many as taps.
    normalized : bool, default=True
        Divide every frequency by its power, so that signals of any colour are learned fast; False is block LMS.

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> rng = np.random.default_rng(0)
    >>> x, echo = rng.standard_normal(4000), np.array([0.5, 0.0, -0.3, 0.1])
    >>> method = rm.BlockLMS(taps=8)
    >>> y = np.convolve(x, echo)[:4000]
    >>> state = method.update(method.init(features=1, outputs=1), x[:, None], y[:, None])
    >>> method.weights(state).ravel().round(3)[:4]
    array([ 0.5,  0. , -0.3,  0.1])

    References
    ----------
    Shynk (1992), "Frequency-domain and multirate adaptive filtering", IEEE Signal Processing Magazine.
    """

    taps: int = 256
    step: float = 0.5
    block: int | None = None
    normalized: bool = True

    linear = False
    summary = "LMS with many taps on signals, block by block in the frequency domain"
    cost = "10 (1 + c) d log n, n taps"
    memory = "nd(3 + c)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "taps", check_count(self.taps, "taps", hint="how many past samples are used"))
        hint = "a share of the way to go, like 0.5" if self.normalized else "1 over the largest eigenvalue of a block"
        high = float(np.nextafter(1.0, 2.0)) if self.normalized else np.inf
        object.__setattr__(self, "step", check_number(self.step, "step", high=high, hint=hint))
        if self.block is not None:
            object.__setattr__(self, "block", check_count(self.block, "block", hint="None is as many as taps"))

    def init(self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64) -> BlockLMSState:
        check = check_complex_start if is_complex(dtype) else check_start
        first = check(start, features, outputs, dtype)
        check_memory(2.0 * first.nbytes * self.taps, f"{self.taps:.3g} taps of {features} signals", "use fewer taps")
        W = np.zeros((self.taps, features, outputs), first.dtype)
        W[0] = first
        past, none = np.zeros((self.taps - 1, features), W.dtype), np.zeros((0, outputs), W.dtype)
        return BlockLMSState(W, past, none, np.zeros((0, features)), 0)

    @quiet
    def track(self, state: BlockLMSState, X: Any, Y: Any, donate: bool = False) -> tuple[BlockLMSState, Array]:
        X, Y = check_block(X, Y, state.W[0])
        W, power, size = state.W, state.power, self._block
        signal, errors = np.concatenate([state.signal, X]), np.concatenate([state.errors, np.empty_like(Y)])
        begun = len(state.errors)  # samples of the first block whose errors are known
        for i in range(0, len(errors), size):
            end = min(i + size, len(errors))
            first = begun if i == 0 else i
            part = slice(first - begun, end - begun)
            own = signal[first : end + self.taps - 1]  # with the n − 1 samples before
            errors[first:end] = Y[part] - _filtered(W, own)
            if end - i == size:
                block = signal[i : end + self.taps - 1]
                W, power = self._learned(W, block, errors[i:end], power)
        done = len(errors) // size * size
        check_result(errors, W)
        new = BlockLMSState(W, signal[done:].copy(), errors[done:].copy(), power, state.count + len(X))
        return new, errors[begun:]

    @property
    def _block(self) -> int:
        return self.taps if self.block is None else self.block

    def _learned(self, W: Array, signal: Array, errors: Array, power: Array) -> tuple[Array, Array]:
        """The taps after a block (F2)."""
        forward, backward, length = _transforms(len(signal) + 1, W.dtype)
        Xf, Ef = forward(signal, length, axis=0), forward(_late(errors, self.taps, length), axis=0)
        change = backward(np.conj(Xf)[:, :, None] * Ef[:, None], length, axis=0)[: self.taps]
        step: Any = self.step
        if self.normalized:
            own = np.abs(Xf).astype(np.float64) ** 2
            power = SMOOTH * power + (1 - SMOOTH) * own if len(power) else own
            level = np.maximum(power, max(FLOOR * float(power.mean()), float(np.finfo(np.float32).tiny)))
            gradient, bins = change, forward(change, length, axis=0) / level[:, :, None].astype(W.real.dtype)
            change = backward(bins, length, axis=0)[: self.taps]
            along, size = _products(gradient, change), _products(errors[:, None], errors[:, None])
            usual = length / (max(len(errors), self.taps) * power.shape[1])
            step = self.step * np.minimum(usual, size / np.where(along > 0, along, np.inf))  # (F4)
        return (W + step * change).astype(W.dtype), power

    @quiet
    def predict(self, state: BlockLMSState, X: Any) -> Array:
        """The outputs (n, c) of the filter for the samples X (n, d) that follow those learned."""
        X = check_rows(X, state.W.shape[1], state.W.dtype)
        before = state.signal[len(state.signal) - self.taps + 1 :]
        predicted = _filtered(state.W, np.concatenate([before, X])) if len(X) else np.zeros((0, state.W.shape[2]))
        check_result(predicted)
        return predicted

    def weights(self, state: BlockLMSState) -> Array:
        """(taps · signals, outputs): all signals of lag 0 first."""
        return read_only(state.W.reshape(-1, state.W.shape[2]))

    def template(self, state: BlockLMSState) -> Array:
        return np.asarray(state.W[0])

    def accepts_state(self, state: object) -> bool:
        if not isinstance(state, BlockLMSState) or len(state.W) != self.taps:
            return False
        begun, bins = len(state.errors), len(state.power)
        if begun >= self._block or len(state.signal) != self.taps - 1 + begun:
            return False
        if not bins:
            return True
        if not self.normalized or self._block + self.taps > 2 * bins:
            return False
        *_, length = _transforms(self._block + self.taps, state.W.dtype)
        return bins == (length if state.W.dtype.kind == "c" else length // 2 + 1)

    def with_outputs(self, state: BlockLMSState, sources: Array) -> BlockLMSState:
        n, d, _ = state.W.shape
        W = take_outputs(state.W.reshape(n * d, -1), sources).reshape(n, d, -1)
        return replace(state, W=W, errors=take_outputs(state.errors, sources))


def _transforms(least: int, dtype: Any) -> tuple[Callable[..., Array], Callable[..., Array], int]:
    """The FFT for signals of this dtype, its inverse, and a fast length of at least this many samples."""
    from scipy import fft

    real = dtype.kind != "c"
    length = int(fft.next_fast_len(least, real=real))
    return (fft.rfft, fft.irfft, length) if real else (fft.fft, fft.ifft, length)


def _late(errors: Array, taps: int, length: int) -> Array:
    """Errors at the places of their samples behind the n − 1 before the block, zeros elsewhere."""
    placed = np.zeros((length, errors.shape[1]), errors.dtype)
    placed[taps - 1 : taps - 1 + len(errors)] = errors
    return placed


def _products(A: Array, B: Array) -> Array:
    """(c,) The real inner product of A and B (n, d, c) for every output."""
    return np.asarray(np.einsum("ndc,ndc->c", A.conj(), B, dtype=np.result_type(A, np.float64)).real)


def _filtered(W: Array, signal: Array) -> Array:
    """The outputs (m, c) for the last m of the samples (n − 1 + m, d) (F1)."""
    taps, count = len(W), len(signal) - len(W) + 1
    if count * taps < 4096:  # a few samples: direct
        rows = np.lib.stride_tricks.sliding_window_view(signal, taps, axis=0)[:, :, ::-1]  # (m, d, n)
        return np.asarray(np.einsum("mdn,ndc->mc", rows, W))
    forward, backward, length = _transforms(len(signal), W.dtype)
    parts = forward(signal, length, axis=0)[:, :, None] * forward(W, length, axis=0)
    return np.asarray(backward(parts.sum(axis=1), length, axis=0)[taps - 1 : taps - 1 + count])  # (F3)
