"""The list of claims as a page of the documentation, made from the catalogue so that it cannot fall behind it."""

import re
import sys
from itertools import groupby

from remanence.certificates.catalogue import Claim, catalogue, module_name
from remanence.certificates.method_map import EDGES

HEAD = """\
# What is claimed, and checked

Every line below is a function that tries the claim on hard and on random data and returns its evidence: what was
measured, what is allowed, and under which conditions. It is evidence on instances, not a proof. An *identity* is equal
up to rounding, and what rounding may do is computed from machine precision, a condition number and the number of
operations. A *bound* compares the two sides of an inequality. A *statistical* claim compares a mean over seeds with
what it should be, within an interval whose error rate is named.

    remanence verify                          every claim, one line each
    remanence verify --claim NAME --seed 7    one of them, on other data
    remanence verify --draw map.svg           the map of methods, each line with its error

`rm.certify(learner, stream)` says which guarantees held on a run of your own. Where the paper is wrong as printed, the
claim is the corrected one; see [errata.md](errata.md).

This page is made by `python -m remanence.certificates > docs/claims.md`.
"""


def claims_page() -> str:
    """Every claim by room, in the order of the paper, and the lines of the map with the claims that check them."""
    claims = catalogue()
    parts = [HEAD]
    for room, members in groupby(claims, key=lambda claim: claim.room):
        parts.append(f"\n## {_heading(room)}\n\n" + "".join(map(_entry, members)))
    parts.append("\n## Lines of the map of methods\n\n")
    for one, other in EDGES:
        names = [f"`{claim.name}`" for claim in claims if claim.edge == (one, other)]
        parts.append(f"- {one} – {other}: {', '.join(names) or 'not checked yet'}\n")
    return "".join(parts)


def _heading(room: str) -> str:
    """The first sentence of the room's own words."""
    words = sys.modules[module_name(room)].__doc__ or room
    return words.strip().splitlines()[0].rstrip(".").split(": ")[0]


def _entry(claim: Claim) -> str:
    given = f" Conditions: {'; '.join(claim.conditions)}." if claim.conditions else ""
    where = f"{claim.source[0].upper()}{claim.source[1:]}; {claim.kind}.{given}"
    return f"- **{_escaped(claim.statement)}.** {_escaped(where)} `{claim.name}`\n"


def _escaped(text: str) -> str:
    """Symbols of the paper that Markdown would take for its own."""
    return re.sub(r"([*_<|])", r"\\\1", text)
