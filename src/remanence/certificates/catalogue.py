"""The catalogue of claims: one function each, named after the claim, in modules that follow the paper.

    @claim("ICL reaches the minimum-norm solution", source="Theorem 5", instances=consistent, edge=("ICL", "Min-Norm"))
    def icl_reaches_the_minimum_norm_solution(X, Y, method=ICL()) -> Evidence: ...

A check takes plain data and, with a default, the method it examines, so that tests can pass a damaged one. It returns
its evidence; the decorator turns that into a certificate with the statement of the claim.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec

import numpy as np

from remanence.certificates.certificate import Certificate, Evidence, Kind
from remanence.certificates.method_map import Edge, edge_between
from remanence.errors import MissingDependency, NumericalError

P = ParamSpec("P")
Instances = Callable[[np.random.Generator], Iterable[dict[str, Any]]]  # hard ones first, then random ones without end

# In the order of the paper: a module of claims, and the package it is in.
PACKAGES = {
    "metrics": "linear",
    "lms": "linear",
    "lms_expected": "linear",
    "lms_recurring": "linear",
    "apa": "linear",
    "icl": "linear",
    "gradient_projection": "linear",
    "layers": "networks",
    "guards": "networks",
    "ogd_guard": "networks",
    "orfit_networks": "networks",
    "rls": "rls",
    "rls_phi": "rls",
    "rls_limits": "rls",
    "rls_evidence": "rls",
    "rls_changes": "rls",
    "kalman": "kalman",
    "kalman_stream": "kalman",
    "smoother": "kalman",
    "extended": "kalman",
    "drift_learning": "kalman",
    "online_learners": "networks",
    "editing": "networks",
    "kernel_methods": "further",
    "switching": "further",
    "streaming_svd": "further",
    "subspace_tracking": "further",
    "signals": "further",
    "task_dictionary": "further",
    "replay_guards": "networks",
    "order_updates": "further",
    "feature_maps": "further",
}
MODULES = tuple(PACKAGES)
NEED_TORCH = frozenset({"editing", "guards", "ogd_guard", "orfit_networks", "online_learners", "replay_guards"})

_CLAIMS: dict[str, "Claim"] = {}


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper, or one that completes it, with the function that checks it and data to check it on.

    Parameters
    ----------
    name, statement, source : str
        Name of the check, the statement, and where it is in the paper.
    kind : "identity", "bound" or "statistical"
        As in Certificate.
    module : str
        Name of the module that defines it, such as "lms": its topic in the paper.
    edge : tuple of str, optional
        The edge of the map of methods that it checks.
    conditions : tuple of str
    check : callable
        Takes a data set as keyword arguments and returns a Certificate.
    instances : callable
        Takes a numpy Generator and yields data sets, hard ones first.

    Examples
    --------
    >>> import numpy as np
    >>> import remanence as rm
    >>> claim = next(c for c in rm.certificates.catalogue() if c.name == "icl_is_the_minimum_norm_solution")
    >>> data = next(iter(claim.instances(np.random.default_rng(0))))
    >>> claim.check(**data).holds
    True
    """

    name: str
    statement: str
    source: str
    kind: Kind
    module: str
    edge: Edge | None
    conditions: tuple[str, ...]
    check: Callable[..., Certificate]
    instances: Instances


def claim(
    statement: str,
    *,
    source: str,
    instances: Instances,
    kind: Kind = "identity",
    edge: Edge | None = None,
    conditions: tuple[str, ...] = (),
) -> Callable[[Callable[P, Evidence]], Callable[P, Certificate]]:
    """Register a check; what it returns becomes a certificate under this statement."""
    if edge is not None:
        assert edge_between(*edge) is not None, f"the map has no edge between {edge[0]} and {edge[1]}"
        edge = edge_between(*edge)

    def register(check: Callable[P, Evidence]) -> Callable[P, Certificate]:
        name = check.__name__
        assert name not in _CLAIMS, f"two claims are named {name}"
        assert all(statement != known.statement for known in _CLAIMS.values()), f"claimed twice: {statement}"

        @wraps(check)
        def certified(*args: P.args, **kwargs: P.kwargs) -> Certificate:
            try:
                found = check(*args, **kwargs)
            except (NumericalError, np.linalg.LinAlgError) as problem:  # a check without a result does not hold
                found = Evidence(float("nan"), float("nan"), (f"gave no result: {problem}",))
            given = (*conditions, *found.conditions)
            return Certificate(statement, source, given, found.measured, found.allowed, kind, name, found.unmet)

        module = check.__module__.rpartition(".")[2]
        _CLAIMS[name] = Claim(name, statement, source, kind, module, edge, conditions, certified, instances)
        return certified

    return register


def catalogue() -> tuple[Claim, ...]:
    """Every claim, in the order of the paper; modules that need an extra are left out where it is not installed.

    Returns
    -------
    tuple of Claim

    Examples
    --------
    >>> import remanence as rm
    >>> len(rm.certificates.catalogue()) > 50
    True
    """
    left_out()
    return _in_order(MODULES)


def claims_without_torch() -> tuple[Claim, ...]:
    """The claims that need no extra, in the order of the paper; torch is not imported."""
    modules = [module for module in MODULES if module not in NEED_TORCH]
    for module in modules:
        import_module(module_name(module))
    return _in_order(modules)


def _in_order(modules: Sequence[str]) -> tuple[Claim, ...]:
    chosen = [known for known in _CLAIMS.values() if known.module in modules]
    return tuple(sorted(chosen, key=lambda known: MODULES.index(known.module)))  # (sorting is stable)


def module_name(module: str) -> str:
    """The full name of a module of claims."""
    return f"remanence.certificates.claims.{PACKAGES[module]}.{module}"


def left_out() -> dict[str, str]:
    """The modules whose claims cannot be checked here, and what they need."""
    missing = {}
    for module in MODULES:
        try:
            if module in NEED_TORCH:
                import_module("remanence.deep")  # which says what to install
            import_module(module_name(module))
        except MissingDependency as need:
            missing[module] = str(need)
    return missing
