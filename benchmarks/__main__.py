"""`python -m benchmarks [--quick] [--only NAME]…`: measure, show one table, keep the numbers."""

import argparse
import sys
from pathlib import Path

from benchmarks import registry, results
from benchmarks.rows import FULL, QUICK, SMOKE, PeerMissing, Row
from benchmarks.timing import one_thread
from remanence.progress import progress_bar

EFFORTS = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "python -m benchmarks", description="Speed and memory as ratios to other libraries."
    )
    found.add_argument("--quick", action="store_const", const="quick", dest="effort", help="few rounds, under a minute")
    found.add_argument("--smoke", action="store_const", const="smoke", dest="effort", help="only see that all runs")
    found.add_argument("--only", action="append", default=[], metavar="NAME", help="a group, a benchmark, or a pattern")
    found.add_argument(
        "--out", type=Path, help="folder for the numbers; default benchmarks/results for a full run, else none"
    )
    found.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    found.add_argument("--strict", action="store_true", help="exit with 1 when a goal is missed")
    found.set_defaults(effort="full")
    return found


def main(arguments: list[str] | None = None) -> int:
    from rich.console import Console

    given = parser().parse_args(arguments)
    screen, side = Console(), Console(stderr=True)
    entries = registry.chosen(given.only)
    if given.list:
        for group, name, _ in entries:
            screen.print(f"{group}: {name}")
        return 0
    rows: dict[str, list[Row]] = {}
    with one_thread() as enforced, progress_bar("Measuring", len(entries)) as advance:
        if enforced:
            side.print("numerical libraries are held to one thread for this run")
        facts = results.machine()
        for group, name, run in entries:
            try:
                rows.setdefault(group, []).extend(run(EFFORTS[given.effort]))
            except PeerMissing as reason:
                side.print(f"{name} skipped: {reason}")
            advance(1)
    everything = [row for found in rows.values() for row in found]
    screen.print(results.table(everything))
    missed = [row.name for row in everything if row.reached is False]
    screen.print(f"goals missed: {', '.join(missed) or 'none'}")
    out = given.out or (Path(__file__).parent / "results" if given.effort == "full" else None)
    if out is not None:
        for group, found in rows.items():
            results.write(out, group, found, facts)
        (out / "README.md").write_text(results.markdown(out, registry.GROUPS))
    return int(bool(missed) and given.strict)


if __name__ == "__main__":
    sys.exit(main())
