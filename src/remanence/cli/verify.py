"""`remanence verify`: check every claim of the paper on difficult and random data; report the measured errors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from remanence.certificates import Certificate

SIGNS = {"identity": "=", "bound": "≤", "statistical": "~"}
LEGEND = "= equal up to rounding   ≤ an inequality   ~ a mean over seeds, within its confidence interval"


def verify(
    claim: Annotated[list[str] | None, typer.Option(help="Name of a claim; repeatable. All claims by default.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random data.")] = 0,
    instances: Annotated[int, typer.Option(help="Number of data sets per claim, difficult ones first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificates as JSON, and nothing else.")] = False,
    draw: Annotated[Path | None, typer.Option(help="SVG file for the map of methods with their errors.")] = None,
) -> None:
    """Check every claim of the paper on difficult and random data; exit with 1 if one fails."""
    from remanence.certificates import draw_map
    from remanence.certificates import verify as verified

    found = verified(seed, instances, claim or None)
    if draw is not None:
        draw_map(found, draw)
    if as_json:
        typer.echo(json.dumps([certificate.to_dict() for certificate in found], ensure_ascii=False, allow_nan=False))
    else:
        _show(found, seed)
        if draw is not None:
            typer.echo(f"Map of methods: {draw}")
    if not all(certificate.holds for certificate in found):
        raise typer.Exit(1)


def _show(found: "list[Certificate]", seed: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from remanence.certificates.catalogue import left_out

    console = Console(highlight=False)
    width = max(len(certificate.name) for certificate in found)
    for certificate in found:
        style = "green" if certificate.holds else "bold red"
        line = Text(f"{'✓' if certificate.holds else '✗'} ", style)
        line.append(f"{SIGNS[certificate.kind]} ", "dim")
        line.append(certificate.name.ljust(width))
        line.append(f"  {certificate.measured:9.1e}", style)
        line.append(f" of {certificate.allowed:.1e}  {certificate.source}", "dim")
        console.print(line, soft_wrap=True)
    failed = [certificate for certificate in found if not certificate.holds]
    for certificate in failed:
        console.print(Text(f"\n{certificate}", "red"), soft_wrap=True)
    console.print(f"\n{len(found) - len(failed)} of {len(found)} claims hold for seed {seed}, each in its worst case.")
    console.print(Text(LEGEND, "dim"), soft_wrap=True)
    for need in dict.fromkeys(left_out().values()):
        console.print(Text(f"Claims about networks were left out: {need}", "yellow"), soft_wrap=True)
