"""Claims about kernel methods: the same recursions in the space of a kernel.

    minimise over f   Σ ‖yᵢ − f(xᵢ)‖² + λ‖f‖²                                       kernel ridge regression
    f = (K + λI)⁻¹y over all samples, a Gaussian process with noise λ

Kernel RLS adds a nugget ν to the diagonal of K in ‖f‖² = αᵀ(K + νI)α, some units of rounding.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.catalogue import claim
from remanence.certificates.certificate import Evidence, difference, rounding
from remanence.certificates.instances.data import Generator, Instance
from remanence.certificates.instances.runs import worst_of
from remanence.memory.kernel.dictionary import NUGGET
from remanence.memory.kernel.functions import kernel_matrix
from remanence.methods import KernelLMS, KernelRLS
from remanence.methods.protocol import Method

RIDGE = 0.1


def scattered_rows(rng: Generator) -> Iterator[Instance]:
    """Rows that no others span, in one to four columns, in any order, with noisy targets."""
    while True:
        n, d = int(rng.integers(1, 25)), int(rng.integers(1, 5))
        X = rng.uniform(-0.5, 0.5, (n, d))
        X[:, 0] += 1.5 * rng.permutation(n)
        yield {"X": X, "Y": rng.standard_normal((n, 2))}


def _predicted(method: Method[Any], X: Array, Y: Array, at: Array) -> Array:
    return method.predict(method.update(method.init(X.shape[1], Y.shape[1]), X, Y), at)


@claim(
    "Kernel RLS that takes every new sample is kernel ridge regression over all samples, after each of them",
    source="Engel, Mannor and Meir (2004); completes Table 1",
    instances=scattered_rows,
    conditions=("tolerance 0", f"ridge {RIDGE}"),
)
def kernel_rls_is_kernel_ridge_regression(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """Predictions after t samples against (K + λI)⁻¹y of those; the nugget may change them by ν/λ."""
    method, worst = method or KernelRLS(tolerance=0.0, ridge=RIDGE), 0.0
    for t in {1, len(X) // 2, len(X)} - {0}:
        K = kernel_matrix("rbf", 1.0, X[:t], X[:t])
        dense = kernel_matrix("rbf", 1.0, X, X[:t]) @ np.linalg.solve(K + RIDGE * np.eye(t), Y[:t])
        worst = worst_of(worst, difference(_predicted(method, X[:t], Y[:t], X), dense))
    kappa = 1 + len(X) / RIDGE
    allowed = rounding(kappa, len(X) ** 2) + 2 * len(X) * NUGGET / RIDGE
    return Evidence(worst, allowed, (f"cond {kappa:.0e}",))


@claim(
    "Kernel RLS that forgets is the Gaussian process whose covariance returns to its prior before each sample",
    source="Van Vaerenbergh, Lázaro-Gredilla and Santamaría (2012)",
    instances=scattered_rows,
    conditions=("tolerance 0", f"ridge {RIDGE}", "forget 0.9"),
)
def kernel_rls_returns_to_its_prior(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """The mean at all rows, against the recursion in means and covariances of the function at all rows."""
    method = method or KernelRLS(tolerance=0.0, ridge=RIDGE, forget=0.9)
    prior = kernel_matrix("rbf", 1.0, X, X)
    mean, cov = np.zeros_like(Y), prior.copy()
    for t in range(len(X)):
        mean, cov = np.sqrt(0.9) * mean, 0.9 * cov + 0.1 * prior
        gain = cov[:, t] / (cov[t, t] + RIDGE)
        mean, cov = mean + np.outer(gain, Y[t] - mean[t]), cov - np.outer(gain, cov[t])
    kappa = (1 + len(X) / RIDGE) ** 2
    allowed = rounding(kappa, len(X) ** 2) + 20 * len(X) ** 2 * NUGGET / RIDGE
    return Evidence(difference(_predicted(method, X, Y, X), mean), allowed, (f"cond² {kappa:.0e}",))


@claim(
    "The errors of kernel LMS solve a triangular system of the kernel matrix",
    source="Liu, Pokharel and Príncipe (2008)",
    instances=scattered_rows,
    conditions=("tolerance 0", "step 0.5"),
)
def kernel_lms_errors_solve_a_triangular_system(X: Array, Y: Array, method: Method[Any] | None = None) -> Evidence:
    """(I + γ·strictly lower part of K) e = y."""
    method = method or KernelLMS(step=0.5, tolerance=0.0)
    errors = method.track(method.init(X.shape[1], Y.shape[1]), X, Y)[1]
    system = np.eye(len(X)) + 0.5 * np.tril(kernel_matrix("rbf", 1.0, X, X), -1)
    kappa = float(np.linalg.cond(system))
    return Evidence(
        difference(errors, np.linalg.solve(system, Y)), rounding(kappa, 4 * len(X) ** 2), (f"cond {kappa:.0e}",)
    )
