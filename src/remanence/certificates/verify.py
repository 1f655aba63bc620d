"""Try every claim on hard and on random data, and keep the worst case of each."""

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
    """One certificate a claim: its worst case over at most this many data sets, the hard ones first.

    The data of a claim depend on the seed and on its name alone, so asking for one claim finds what asking for all of
    them finds.

    Parameters
    ----------
    seed : int
        Decides the random data.
    instances : int
        At most so many data sets a claim.
    claims : list of str, optional
        Names of claims; all of them if None.
    progress : bool, optional
        Forces the bar on or off.
    """
    seed, instances = check_count(seed, "seed", 0), check_count(instances, "instances")
    chosen = _chosen(claims)
    return [worst_case(known, seed, instances) for known in track_progress(chosen, "Verifying claims", show=progress)]


def worst_case(known: Claim, seed: int, instances: int) -> Certificate:
    """The certificate that came nearest to its limit, or furthest beyond it; one that applies, if any does."""
    rng = np.random.default_rng([seed, crc32(known.name.encode())])
    found = [known.check(**data) for data in islice(known.instances(rng), instances)]
    assert found, f"{known.name} has no data to be tried on"
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
