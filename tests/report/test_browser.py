"""The page as a reader meets it: opened in a browser, narrow and wide, light and dark, and on paper."""

from pathlib import Path

import pytest
from PIL import Image

from remanence.certificates import verify
from remanence.evaluation.confusion import Confusion
from remanence.report import Run
from remanence.report.data_summary import DataSummary, TaskSummary
from remanence.report.page import page
from remanence.report.side_by_side import SideBySide

DATA = DataSummary(tuple(TaskSummary(f"task {k}", 1000 * k, 20, 2) for k in range(1, 6)), 64, 3, True)
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
READABLE = 4.5  # contrast that WCAG asks of text
LABELS = ("Fine-tuning", "LMS", "APA", "ICL", "OGD", "ORFit", "RLS", "Nearest mean", "Replay", "Ridge retrained")


@pytest.fixture(scope="module")
def relations():
    return tuple(verify(0, 1, ["apa_without_a_buffer_is_lms", "orfit_is_icl"]))


def words(k):
    """Answers to rows of three classes with names that cannot be broken, k of them wrong."""
    true = ["an_intent_with_a_long_name", "another", "x" * 40] * 10
    return Confusion.of(true, [*true[1 : k + 1], *true[k:]][: len(true)])


@pytest.fixture(scope="module")
def file(tmp_path_factory, outcome, run, relations):
    """A page with all there can be: ten learners, two seeds, guarantees of every status, the map, long words."""
    guarantees = run.outcomes[1].certificates
    learners = tuple(
        outcome(
            label.lower(),
            label,
            [[0.1 * k] * 5, [0.09 * k] * 5],
            "reference" if label.endswith("retrained") else "floor" if label.startswith("Fine") else "learner",
            note=f"About {label}: " + "something worth saying. " * 6 if k < 3 else "",
            tasks=5,
            certificates=guarantees,
            confusion=words(k + 3),
        )
        for k, label in enumerate(LABELS)
    )
    command = "remanence run --stream /a/long/path/without/any/break/" + "x" * 80 + ".csv --methods all"
    text = page(Run(learners, {"stream": "by hand"}, command, {"python": "3"}, ("A note.",), relations, DATA))
    assert len(text.encode()) < 1_000_000
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everything_fits_and_reads_and_nothing_leaves_the_page(visiting, file, width, scheme):
    with visiting(file, width, scheme) as visit:
        picture = SCREENSHOTS / f"run-{scheme}-{width}.png"
        visit.page.screenshot(path=picture, full_page=True)
        assert visit.requests == [] and visit.complaints == []
        assert visit.sticking_out() == []
        worst, text = visit.contrasts()[0]
        assert worst >= READABLE, text
        with Image.open(picture) as shown:
            corner = shown.convert("L").getpixel((2, 2))
            assert shown.size[0] == width and (corner > 200 if scheme == "light" else corner < 60)


def test_a_wide_table_scrolls_inside_itself(visiting, file):
    with visiting(file, 360) as visit:
        wide = visit.page.evaluate(
            "() => [...document.querySelectorAll('.scroll')].map(e => e.scrollWidth > e.clientWidth)"
        )
        assert len(wide) == 4 and wide[0] and wide[-1]  # figures, classes, confusions, tasks
        shadow = "() => getComputedStyle(document.querySelector('.scroll')).backgroundImage.match(/gradient/g).length"
        assert visit.page.evaluate(shadow) == 4  # which shows that there is more to see
        moved = "() => { const e = document.querySelector('.scroll'); e.scrollLeft = 1000; return e.scrollLeft }"
        assert visit.page.evaluate(moved) > 0


def test_on_paper_it_is_light_and_hides_nothing(visiting, file):
    with visiting(file, 800, "dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        ground = visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        heights = visit.page.evaluate("() => [...document.querySelectorAll('details li')].map(e => e.offsetHeight)")
        assert heights and min(heights) > 10
        assert visit.page.pdf().startswith(b"%PDF")


def test_pictures_have_names_that_a_screen_reader_finds(visiting, file):
    with visiting(file) as visit:
        pictures = visit.page.get_by_role("img")
        assert pictures.count() == len(LABELS) + 1
        assert visit.page.get_by_role("img", name="Error matrix of RLS").count() == 1


def test_a_page_that_misbehaves_would_be_seen(visiting, tmp_path):
    """The eyes above must be able to see."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<body style='color: #999'><p>pale</p><div style='width: 900px'>wide</div><svg width=20 height=20>"
        "<text y=10>far too long</text></svg><img src='https://example.org/x.png'><script>undefined.x</script></body>"
    )
    with visiting(path, 360) as visit:
        assert visit.requests == ["https://example.org/x.png"] and visit.complaints
        out = " ".join(visit.sticking_out())
        assert "DIV wide" in out and "letters far too long" in out and "sideways" in out
        assert visit.contrasts()[0][0] < READABLE


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_runs_side_by_side_fit_too(visiting, tmp_path, run, seeded, scheme):
    both = SideBySide({"runs/first": run, "runs/with-a-very-long-name-that-goes-on-and-on": seeded})
    path = tmp_path / "index.html"
    path.write_text(both.page(), encoding="utf-8")
    for width in (360, 1280):
        with visiting(path, width, scheme) as visit:
            visit.page.screenshot(path=SCREENSHOTS / f"compare-{scheme}-{width}.png", full_page=True)
            assert visit.requests == [] and visit.complaints == [] and visit.sticking_out() == []
            worst, text = visit.contrasts()[0]
            assert worst >= READABLE, text
