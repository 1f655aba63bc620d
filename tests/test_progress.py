"""The bar stays out of the way, appears when work is long and watched, and never eats an item."""

import io
import time

import pytest

from remanence import progress
from remanence.evaluation import evaluate
from remanence.progress import progress_bar, track_progress
from remanence.streams import linear


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    """Called inside the test and not a fixture: pytest replaces sys.stderr between setup and call."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def work(show=None, seconds=0.0):
    seen = []
    for item in track_progress(range(3), "Sorting stones", show=show):
        time.sleep(seconds)
        seen.append(item)
    return seen


def test_short_work_shows_nothing_even_on_a_terminal(monkeypatch):
    terminal = a_terminal(monkeypatch)
    assert work() == [0, 1, 2]
    assert terminal.getvalue() == ""


def test_long_work_shows_a_bar_on_a_terminal(monkeypatch):
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.02)
    assert work(seconds=0.3) == [0, 1, 2]
    assert "Sorting stones" in terminal.getvalue() and "/3" in terminal.getvalue()


def test_long_work_shows_nothing_where_nobody_watches(capfd, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.02)
    assert work(seconds=0.1) == [0, 1, 2]
    assert capfd.readouterr() == ("", "")


def test_the_bar_can_be_forced_on_and_off(monkeypatch):
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.02)
    work(show=False, seconds=0.1)
    assert terminal.getvalue() == ""
    work(show=True)
    assert "Sorting stones" in terminal.getvalue()


def test_an_error_in_the_work_closes_the_bar_and_is_passed_on(monkeypatch):
    terminal = a_terminal(monkeypatch)
    with pytest.raises(KeyError), progress_bar("Sorting stones", 3, show=True) as advance:
        advance(1)
        raise KeyError
    written = terminal.getvalue()
    time.sleep(0.3)
    assert terminal.getvalue() == written and "1/3" in written


def test_evaluation_reports_its_tasks(monkeypatch):
    terminal = a_terminal(monkeypatch)

    class Silent:
        def init(self, features, outputs): ...
        def update(self, state, X, Y): ...
        def predict(self, state, X):
            return X[:, :1]

    evaluate(Silent(), linear(4, 2))
    assert terminal.getvalue() == ""
    evaluate(Silent(), linear(4, 2), progress=True)
    assert "4/4" in terminal.getvalue()


def test_work_can_say_where_it_is(monkeypatch):
    terminal = a_terminal(monkeypatch)
    with progress_bar("Sorting stones", 3, show=True) as advance:
        advance(1, "the grey ones")
        advance(2)
    assert "Sorting stones: the grey ones" in terminal.getvalue() and "3/3" in terminal.getvalue()
