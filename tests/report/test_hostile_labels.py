"""Labels of classes, names of folders and settings that a terminal, a browser or matplotlib would obey."""

import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from rich.console import Console

from remanence.cli import main
from remanence.evaluation import ErrorMatrix
from remanence.report.outcome import Outcome
from remanence.report.page import notebook_view, page
from remanence.report.pictures import matrices_figure, rendered
from remanence.report.run import Run
from remanence.report.side_by_side import SideBySide
from remanence.report.terminal import show

SHORT = ("[/b]", "[red]x", "\x1b[31mz", "$\\frac{$", "a&b", "<b>x")  # drawn beside the pictures
LONG = (
    "[/b] [red]x",
    "\x1b[31mz and more",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{$ $",
)


@pytest.fixture(params=[SHORT, LONG], ids=["short", "long"])
def labels(request):
    return request.param


def hostile(labels):
    values = np.full((len(labels), len(labels) + 1), 0.25)
    matrix = ErrorMatrix(values, labels, "zero_one", np.ones(len(labels)), labels[0], 10.0)
    outcomes = tuple(Outcome(label, label, (matrix,), note=label) for label in labels[:3])
    told = " ".join(labels)
    return Run(outcomes, {"stream": told, "seed": told}, f"remanence run --stream {told}", {told: told}, labels)


def printed(shown):
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    shown(console)
    return console.file.getvalue()


def shown_as(label):
    return label.replace("\x1b", "\\x1b")


def test_the_terminal_shows_them_as_they_are(labels):
    run, other = hostile(labels), hostile(("plain",))
    both = SideBySide({labels[0]: run, labels[1]: other})
    out = printed(lambda c: show(run, c))
    assert "\x1b" not in out and all(shown_as(label) in out for label in labels)
    out = printed(lambda c: c.print(both.table()))
    assert "\x1b" not in out and all(shown_as(label) in out for label in labels[:3])


def test_pages_and_pictures_hold_no_tag_and_no_formula_of_a_label(labels):
    run = hostile(labels)
    pages = [page(run), notebook_view(run), SideBySide({labels[0]: run, labels[1]: hostile(("plain",))}).page()]
    for html in pages:
        assert "<script" not in html and "<img" not in html and "<b>" not in html
        for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
            ElementTree.fromstring(svg)  # well-formed, whatever the label
    assert rendered(matrices_figure(run), "png")


def test_commands_show_names_of_folders_and_settings_as_they_are(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("remanence.report.side_by_side.SideBySide.page", lambda self: "a page")
    names = [tmp_path / f"a{SHORT[0]}".replace("/", "∕"), tmp_path / "b\x1b[2J"]
    for name, labels in zip(names, (SHORT, ("plain",)), strict=True):
        name.mkdir()
        hostile(labels).save(name / "results.json")
    with pytest.raises(SystemExit) as leaving:
        main(["compare", *map(str, names), "--out", str(tmp_path / "c\x1b[2J")])
    out, err = capsys.readouterr()
    assert not leaving.value.code and err == "" and "\x1b" not in out and "\\x1b[31mz" in out and "c\\x1b[2J" in out
