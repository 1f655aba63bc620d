"""What is shown is what the run says, in every form: terminal, pictures, page."""

import io
import re
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from remanence.evaluation.reliability import Reliability
from remanence.report import Run
from remanence.report.page import page
from remanence.report.pictures import accuracy_figure, matrices_figure, reliability_figure, rendered
from remanence.report.terminal import show
from remanence.report.words import figures, in_bytes, verdict


def printed(run, width=80):
    console = Console(file=io.StringIO(), width=width)
    show(run, console)
    return console.file.getvalue()


def test_the_terminal_shows_every_learner_note_and_figure(run):
    text = printed(run)
    for o in run.outcomes:
        assert o.label in text and all(cell in text for cell in figures(o))
    assert "About <the> stream." in text and "A note with <b> & quotes." in text
    assert run.headline in text.replace("\n", " ").replace("  ", " ")
    assert max(map(len, text.splitlines())) <= 80


def test_figures_are_whole_on_eighty_columns(outcome):
    wide = outcome("rls", "Logistic retrained", [0.1] * 5, tasks=5)
    wide = replace(wide, matrices=(replace(wide.matrix, memory=97_340),))
    assert all(cell in printed(Run((wide,))) for cell in (wide.label, *figures(wide)))


@pytest.mark.parametrize("width", [80, 100])
def test_a_long_label_cuts_no_figure(outcome, width):
    label = "Logistic retrained (readout=discriminant, scale=standard, class_weight=balanced)"
    many = tuple(outcome(f"{k}", f"{label} {k}", [[0.1, 0.2], [0.3, 0.45]], tasks=2) for k in range(3))
    lines = printed(Run(many), width)
    for o in many:
        assert all(part in lines for cell in figures(o) for part in cell.split(" ± "))
    assert "accuracy" in lines and "transfer" in lines and max(map(len, lines.splitlines())) <= width


def test_figures_are_in_points_without_a_minus_before_zero(run, outcome):
    assert figures(run.outcomes[2]) == ["50.0", "90.0", "−90.0", "0.0", "1.000", "2.0 kB"]
    assert figures(outcome("x", "X", [0.0, 0.0004], learned=0.0))[1:3] == ["0.0", "0.0"]


def test_a_long_stream_leaves_out_the_middle(outcome):
    text = printed(Run((outcome("x", "X", [0.5] * 40, tasks=40),)))
    assert "task 40" in text and "task 20" not in text and "…" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("tasks", [1, 5, 12, 40])
def test_pictures_of_any_number_of_tasks(tasks, outcome):
    run = Run(tuple(outcome(f"{k}", f"Learner {k}", [0.1 * k] * tasks, tasks=tasks) for k in range(5)))
    for figure in (matrices_figure(run), accuracy_figure(run)):
        with Image.open(io.BytesIO(rendered(figure, "png"))) as picture:
            assert min(picture.size) > 300 and len(picture.convert("RGB").getcolors(1 << 24)) > 20


def test_learned_and_not_learned_differ_in_the_picture_and_in_the_vector_picture(run):
    """A backend that drops opacity would paint an unlearned task as a forgotten one."""
    svg = rendered(matrices_figure(run), "svg").decode()
    encoded = re.search(r"data:image/png;base64,([^\"]+)", svg)
    assert encoded is not None
    with Image.open(io.BytesIO(b64decode(encoded[1]))) as cells:
        opacity = set(cells.convert("RGBA").getchannel("A").tobytes())
    assert len(opacity) == 2 and max(opacity) == 255 and min(opacity) < 60


def test_the_same_run_gives_the_same_bytes(run):
    assert page(run) == page(Run.from_dict(run.to_dict()))
    assert rendered(matrices_figure(run), "svg") == rendered(matrices_figure(run), "svg")


def test_drawing_leaves_the_settings_of_the_user_alone(run):
    import matplotlib

    before = dict(matplotlib.rcParams)
    page(run)
    assert dict(matplotlib.rcParams) == before


def test_the_page_escapes_what_it_did_not_write(run, outcome):
    text = page(run)
    assert "A note with &lt;b&gt; &amp; quotes." in text and "<b>" not in text
    assert "--stream &#39;by hand&#39;" in text and "it keeps &lt;nothing&gt;" in text
    strange = page(Run((outcome("x", 'X" onload="alert(1)', [0.0, 0.0]),)))
    assert not re.search(r'<[^>]*onload="', strange)  # as text between tags it is harmless


def test_the_page_follows_the_scheme_of_the_reader(run):
    text = page(run)
    assert "prefers-color-scheme: dark" in text and "currentColor" in text and "http" not in text
    assert 'name="viewport"' in text
    assert "#1b1f24" not in text.split("</style>")[1]  # no ink that would vanish on a dark page


def test_guarantees_are_told_apart_in_words_and_marks(run):
    text = page(run)
    for certificate in run.outcomes[1].certificates:
        assert certificate.claim in text
    assert [verdict(c) for c in run.outcomes[1].certificates] == [
        "measured 1.0e-15, allowed 1.0e-12",
        "measured 0.5, allowed 1.0e-12",
        "it keeps <nothing>",
    ]
    for status, mark in (("holds", "✓"), ("fails", "✗")):
        assert re.search(rf'<li class="{status}"><span class="mark" aria-hidden="true">{mark}', text)
    assert "1 does not apply" in text
    terminal = printed(run)
    assert "✓ It equals joint training" in terminal and "✗ Answers have not moved" in terminal
    assert "1.0e-15 ≤ 1.0e-12" in terminal and "0.5 > 1.0e-12" in terminal and "1 does not apply" in terminal


def test_without_certificates_nothing_is_promised(outcome):
    bare = Run((outcome("x", "X", [0.0, 0.0]),))
    assert "guaranteed" not in page(bare) and "guaranteed" not in printed(bare) and "How the methods" not in page(bare)


def test_a_spread_stands_beside_its_mean(seeded):
    assert figures(seeded.outcomes[0])[0] == "85.0 ± 7.1"
    assert "85.0 ± 7.1" in page(seeded) and "± 7.1" in printed(seeded) and "2 seeds" in page(seeded)
    assert max(map(len, printed(seeded).splitlines())) <= 80


def test_a_band_is_drawn_around_several_seeds(run, seeded):
    bands = [len(accuracy_figure(r).axes[0].collections) for r in (run, seeded)]
    assert bands == [0, 2]


def test_every_picture_says_what_it_shows(run):
    text = page(run)
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        names = re.search(r'role="img" aria-labelledby="([^"]+)"', svg)
        assert names is not None
        for name in names[1].split():
            assert re.search(rf"<(title|desc) id=[\"']{name}[\"']>[^<]+<", svg)
    assert "Fine-tuning: 100, 50" in text


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (2048, "2.0 kB"), (706_123, "706 kB"), (3.2e9, "3.2 GB")]
)
def test_bytes_are_short(count, said):
    assert in_bytes(count) == said


def test_notebooks_show_a_run_and_draw_on_the_axes_they_give(run):
    from matplotlib.figure import Figure

    shown = run._repr_html_()
    assert run.headline in shown and "<svg" in shown and "<table" in shown and "<b>" not in shown
    ax = Figure().subplots()
    assert run.plot(ax) is ax and [t.get_text() for t in ax.get_legend().get_texts()] == [o.label for o in run.outcomes]


def test_a_learner_has_one_colour_in_all_pictures_of_a_comparison(run):
    alone = Run(run.outcomes[2:])
    places = [o.label for o in run.outcomes]
    (first,), (second,) = (
        {line.get_color() for line in accuracy_figure(r, places).axes[0].lines if line.get_label() == "LMS"}
        for r in (run, alone)
    )
    assert first == second != accuracy_figure(alone).axes[0].lines[0].get_color()


def test_a_learner_has_one_colour_in_all_pictures_of_a_page(run):
    sure = Reliability.of(np.eye(2), np.array([0, 1]), [0, 1])
    run = replace(run, outcomes=tuple(replace(outcome, reliability=sure) for outcome in run.outcomes))
    curves = {line.get_label(): line.get_color() for line in accuracy_figure(run).axes[0].lines}
    shown = {line.get_label(): line.get_color() for line in reliability_figure(run, run.outcomes).axes[0].lines[1:]}
    assert shown == {outcome.short_label: curves[outcome.label] for outcome in run.outcomes}
