"""Predict the Lorenz attractor one step ahead: kernel RLS for ten tolerances, and RLS on random features.

    python -m experiments.lorenz

x(t) of the attractor, sampled every 0.01; six values predict the next one. 2 000 rows are learned, 494 are tested.
The textbook recursion multiplies inverses of the kernel matrix (Engel et al. 2004, table 1).
"""

import numpy as np

import remanence as rm
from remanence.arrays import Array

STEP, TAPS, ROWS, WIDTH = 0.01, 6, 2000, 32.0


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


def main() -> None:
    signal = attractor(ROWS + 500)
    X, y = np.lib.stride_tricks.sliding_window_view(signal[:-1], TAPS), signal[TAPS:]
    train, test = slice(0, ROWS), slice(ROWS, None)
    print("tolerance  samples kept  kernel RLS (dB)  textbook recursion (dB)")
    for tolerance in 10.0 ** -np.arange(1, 11):
        method = rm.KernelRLS(width=WIDTH, tolerance=tolerance, ridge=1e-10)
        state = method.update(method.init(TAPS, 1), X[train], y[train, None])
        ours = decibels(method.predict(state, X[test]), y[test])
        with np.errstate(all="ignore"):
            theirs = decibels(textbook(X[train], y[train], X[test], tolerance), y[test])
        print(f"{tolerance:9.0e}  {len(method.points(state)):12d}  {ours:15.1f}  {theirs:23.1f}")
    for width in (100, 300):
        features = rm.RandomFeatures(width, activation="fourier", scale=np.sqrt(TAPS) / WIDTH).fit(X[train])
        rls = rm.RLS(ridge=1e-12)
        state = rls.update(rls.init(width, 1), features.transform(X[train]), y[train, None])
        reached = decibels(rls.predict(state, features.transform(X[test])), y[test])
        print(f"RLS on {width} random Fourier features: {reached:.1f} dB")


if __name__ == "__main__":
    main()
