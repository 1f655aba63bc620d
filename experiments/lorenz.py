"""Predict the Lorenz attractor one step ahead: kernel RLS for ten tolerances and none, and RLS on random features.

    python -m experiments.lorenz

x(t) of the attractor, sampled every 0.01; six values predict the next one. 2 000 rows are learned, 494 are tested.
The textbook recursion multiplies inverses of the kernel matrix (Engel et al. 2004, table 1).
"""

import numpy as np

import remanence as rm
from remanence.arrays import Array

STEP, TAPS, ROWS, WIDTH = 0.01, 6, 2000, 32.0
RIDGE = 1e-12  # there is no noise
TOLERANCES = tuple(10.0**-k for k in range(1, 11))


def attractor(samples: int) -> Array:
    """x(t) on the attractor, by the Runge-Kutta method of order four."""

    def slope(s: Array) -> Array:
        x, y, z = s
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    s, values = np.ones(3), []
    for _ in range(samples + 500):
        a = slope(s)
        b = slope(s + STEP / 2 * a)
        c = slope(s + STEP / 2 * b)
        s = s + STEP / 6 * (a + 2 * b + 2 * c + slope(s + STEP * c))
        values.append(s[0])
    return np.array(values[500:])


def textbook(X: Array, y: Array, at: Array, tolerance: float) -> Array:
    """Predictions of the published recursion (Engel et al. 2004, table 1)."""

    def kernel(A: Array, B: Array) -> Array:
        return np.asarray(np.exp(-((A[:, None] - B[None]) ** 2).sum(-1) / (2 * WIDTH**2)))

    points, inverse, P, alpha = X[:1], np.ones((1, 1)), np.ones((1, 1)), y[:1]
    for x, target in zip(X[1:], y[1:], strict=True):
        k = kernel(points, x[None])[:, 0]
        a = inverse @ k
        delta = 1 - k @ a
        if delta > tolerance:
            m = len(points)
            inverse = np.block([[delta * inverse + np.outer(a, a), -a[:, None]], [-a[None], np.ones((1, 1))]]) / delta
            P = np.block([[P, np.zeros((m, 1))], [np.zeros((1, m)), np.ones((1, 1))]])
            last = (target - k @ alpha) / delta
            alpha, points = np.append(alpha - a * last, last), np.concatenate([points, x[None]])
        else:
            q = P @ a / (1 + a @ P @ a)
            P = P - np.outer(q, a @ P)
            alpha = alpha + inverse @ q * (target - k @ alpha)
    return np.asarray(kernel(at, points) @ alpha)


def decibels(predicted: Array, y: Array) -> float:
    """The mean squared error in dB."""
    return float(10 * np.log10(np.mean((predicted.ravel() - y.ravel()) ** 2)))


def kernel_rls(signal: Array, tolerance: float) -> tuple[int, float]:
    """Samples kept by kernel RLS, and its error on the test rows in dB."""
    (X, y), (at, target) = split(signal)
    method = rm.KernelRLS(width=WIDTH, tolerance=tolerance, ridge=RIDGE)
    state = method.update(method.init(TAPS, 1), X, y[:, None])
    return len(method.points(state)), decibels(method.predict(state, at), target)


def fourier(signal: Array, width: int) -> float:
    """The error of RLS on random Fourier features on the test rows in dB."""
    (X, y), (at, target) = split(signal)
    features = rm.RandomFeatures(width, activation="fourier", scale=np.sqrt(TAPS) / WIDTH).fit(X)
    rls = rm.RLS(ridge=RIDGE)
    state = rls.update(rls.init(width, 1), features.transform(X), y[:, None])
    return decibels(rls.predict(state, features.transform(at)), target)


def split(signal: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Rows and targets to learn, and to test."""
    X, y = np.lib.stride_tricks.sliding_window_view(signal[:-1], TAPS), signal[TAPS:]
    return (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])


def main() -> None:
    signal = attractor(ROWS + 500)
    (X, y), (at, target) = split(signal)
    print("tolerance  samples kept  kernel RLS (dB)  textbook recursion (dB)")
    for tolerance in TOLERANCES:
        with np.errstate(all="ignore"):
            theirs = decibels(textbook(X, y, at, tolerance), target)
        kept, ours = kernel_rls(signal, tolerance)
        print(f"{tolerance:9.0e}  {kept:12d}  {ours:15.1f}  {theirs:23.1f}")
    kept, ours = kernel_rls(signal, 0.0)  # (the textbook recursion would keep all samples, which are dependent)
    print(f"{0.0:9.0e}  {kept:12d}  {ours:15.1f}")
    for width in (100, 300):
        print(f"RLS on {width} random Fourier features: {fourier(signal, width):.1f} dB")


if __name__ == "__main__":
    main()
