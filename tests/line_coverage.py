"""A pytest plugin that prints which share of the package's lines the tests ran: `pytest -p tests.line_coverage`.

Tracing every line makes the tests half as long again on Python 3.11; slipcover rewrites the bytecode instead, so that a
line is counted once and costs nothing afterwards. Counted are the test processes: what tests start as commands of their
own is not seen, and compiled kernels are left out. With pytest-xdist each worker sends its lines to the controller.
"""

from pathlib import Path

import slipcover

SOURCE = Path(__file__).parents[1] / "src" / "remanence"
COMPILED = ["*/kernels/*"]

counter = slipcover.Slipcover(source=[str(SOURCE)], omit=COMPILED)
imports = slipcover.ImportManager(counter, slipcover.FileMatcher(sources=[SOURCE], omit=COMPILED))
imports.__enter__()
collected = []  # the coverage of each worker that has ended


def pytest_sessionfinish(session):
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["lines"] = seen()


def pytest_testnodedown(node):
    """A worker has ended (a hook of pytest-xdist)."""
    if "lines" in (getattr(node, "workeroutput", None) or {}):
        collected.append(node.workeroutput["lines"])


def pytest_terminal_summary(terminalreporter):
    lines = union([*collected, seen()])
    ran, all_of_them = sum(len(a) for a, _ in lines.values()), sum(len(a) + len(b) for a, b in lines.values())
    terminalreporter.write_line(
        f"coverage: {100 * ran / all_of_them:.1f} % of {all_of_them} lines, without commands "
        "that tests start as processes of their own"
    )


def seen():
    """What this process has run: {file: [lines run, lines not run]}."""
    files = counter.get_coverage()["files"]
    return {name: [found["executed_lines"], found["missing_lines"]] for name, found in files.items()}


def union(parts):
    """A line was run if any process ran it."""
    merged = {}
    for part in parts:
        for name, (ran, missed) in part.items():
            before, absent = merged.get(name, (set(), set()))
            merged[name] = before | set(ran), absent | set(missed)
    return {name: (ran, missed - ran) for name, (ran, missed) in merged.items()}
