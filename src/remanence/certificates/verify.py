"""Check every claim on hard and on random data, and keep the worst case of each."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from zlib import crc32

import numpy as np

from remanence.certificates.catalogue import Claim, catalogue
from remanence.certificates.certificate import Certificate
from remanence.errors import InputError
from remanence.progress import track_progress
from remanence.validation import check_count

INSTANCES = 20


def verify(
    seed: int = 0, instances: int = INSTANCES, claims: Iterable[str] | None = None, progress: bool | None = None
) -> list[Certificate]:
    """Check claims and return one certificate per claim: the worst case over at most `instances` data sets.

    Hard data come first, then random data, which depend on the seed and the name of the claim only: checking one claim
    alone gives the same certificate as checking all.

    Parameters
    ----------
    seed : int
        Seed of the random data.
    instances : int
        The largest number of data sets per claim.
    claims : list of str, optional
        Names of claims; all of them if None.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.

    Returns
    -------
    list of Certificate
        In the order of the paper.

    Examples
    --------
    >>> import remanence as rm
    >>> [certificate] = rm.certificates.verify(instances=2, claims=["icl_is_the_minimum_norm_solution"])
    >>> certificate.holds
    True
    """
    seed, instances = check_count(seed, "seed", 0), check_count(instances, "instances")
    chosen = _chosen(claims)
    return [worst_case(known, seed, instances) for known in track_progress(chosen, "Verifying claims", show=progress)]


def worst_case(known: Claim, seed: int, instances: int) -> Certificate:
    """The certificate with the largest measured / allowed, among those that apply if any does."""
    rng = np.random.default_rng([seed, crc32(known.name.encode())])
    found = [known.check(**data) for data in islice(known.instances(rng), instances)]
    assert found, f"{known.name} has no data to be checked on"
    return max(found, key=lambda c: (not c.unmet, c.strain))


def _chosen(names: Iterable[str] | None) -> list[Claim]:
    everything = {known.name: known for known in catalogue()}
    if names is None:
        return list(everything.values())
    if isinstance(names, str):
        raise InputError(f"expected claims to be a list of names, got {names!r}; pass [{names!r}]")
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in everything:
            near = get_close_matches(str(name), everything, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "see remanence.certificates.catalogue()"
            raise InputError(f"unknown claim {name!r}; {hint}")
    return [everything[name] for name in chosen]
