"""What is shown is what the run says, in every form: terminal, pictures, page."""

import io
import re
from base64 import b64decode

import pytest
from PIL import Image
from rich.console import Console

from remanence.report import Run
from remanence.report.page import page
from remanence.report.pictures import accuracy_figure, matrices_figure, matrix_figure, rendered
from remanence.report.terminal import figures, show


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


def test_figures_are_in_points_without_a_minus_before_zero(run, outcome):
    assert figures(run.outcomes[2]) == ["50.0", "90.0", "−90.0", "0.0", "1.000"]
    assert figures(outcome("x", "X", [0.0, 0.0004], learned=0.0))[1:3] == ["0.0", "0.0"]


def test_a_long_stream_leaves_out_the_middle(outcome):
    text = printed(Run((outcome("x", "X", [0.5] * 40, tasks=40),)))
    assert "task 40" in text and "task 20" not in text and "…" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("tasks", [1, 5, 12, 40])
def test_pictures_of_any_number_of_tasks(tasks, outcome):
    run = Run(tuple(outcome(f"{k}", f"Learner {k}", [0.1 * k] * tasks, tasks=tasks) for k in range(5)))
    for figure in (matrices_figure(run), accuracy_figure(run), matrix_figure(run.outcomes[0])):
        with Image.open(io.BytesIO(rendered(figure, "png"))) as picture:
            assert min(picture.size) > 300 and len(picture.convert("RGB").getcolors(1 << 24)) > 20


def test_learned_and_not_learned_differ_in_the_picture_and_in_the_vector_picture(run):
    """A backend that drops opacity would paint an unlearned task as a forgotten one."""
    svg = rendered(matrix_figure(run.outcomes[0]), "svg").decode()
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
    assert "--stream &#39;by hand&#39;" in text
    strange = page(Run((outcome("x", 'X" onload="alert(1)', [0.0, 0.0]),)))
    assert not re.search(r'<[^>]*onload="', strange)  # as text between tags it is harmless


def test_the_page_follows_the_scheme_of_the_reader(run):
    text = page(run)
    assert "prefers-color-scheme: dark" in text and "currentColor" in text and "http" not in text
    assert 'name="viewport"' in text
    assert "#1b1f24" not in text.split("</style>")[1]  # no ink that would vanish on a dark page
