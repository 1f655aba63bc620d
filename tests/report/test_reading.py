"""What a reader asks first: what the data are, which learner is best, where it errs, what relates to this run."""

import io
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from matplotlib.text import Text
from rich.console import Console

import remanence as rm
from remanence.evaluation.confusion import Confusion
from remanence.evaluation.reliability import Reliability
from remanence.report import Contender, Run, compare
from remanence.report.data_summary import DataSummary
from remanence.report.page import page
from remanence.report.pictures import accuracy_figure, accuracy_range, matrices_figure
from remanence.report.terminal import show


@pytest.fixture(scope="module")
def learned():
    learners = {"lms": rm.ContinualClassifier(rm.LMS(step=0.1)), "rls": rm.ContinualClassifier(rm.RLS())}
    contenders = [Contender(name, name.upper(), learner) for name, learner in learners.items()]
    return compare(contenders, rm.streams.digits(5), progress=False)


def test_the_data_are_described(learned):
    assert learned.data.sentence == (
        "1,347 training and 450 test rows (25 % of all), 64 features, 10 classes in 5 tasks."
    )
    assert "450 test rows (25\u00a0% of all)" in page(learned)
    console = Console(file=io.StringIO(), width=120)
    show(learned, console)
    assert console.file.getvalue().splitlines()[:2] == [learned.data.sentence, ""]
    for test in ((), (np.eye(3), [0, 1, 1])):  # also as copies, which is what --test 0 makes
        assert (
            DataSummary.of([rm.Task("one", np.eye(3), [0, 1, 1], *test)]).sentence
            == "3 rows, tested on the rows that were learned, 3 features, 2 classes in 1 task."
        )
    assert Run.from_dict(learned.to_dict()).to_dict() == learned.to_dict()


def test_the_best_comes_first_and_is_marked(run):
    text = page(run)
    rows = re.findall(
        r'<tr class="(\w+)( best)?"><th scope="row">([^<]+?) ?(?:<span class="tag">([^<]+)</span>)?</th>', text
    )
    assert [(label.strip(), mark) for _, _, label, mark in rows] == [
        ("Ridge retrained", "best"),
        ("RLS", "best learner"),
        ("Fine-tuning", ""),
        ("LMS", ""),
    ]
    assert "Backward transfer" not in text and "Forward transfer" not in text  # which is 0 for all


def test_hardest_classes_and_confusions_are_those_of_the_best_learner(learned):
    best = learned.best
    stream = rm.streams.digits(5)
    model = rm.ContinualClassifier(rm.RLS())
    for task in stream:
        model.partial_fit(task.X, task.Y)
    X, y = np.concatenate([t.X_test for t in stream]), np.concatenate([t.Y_test for t in stream])
    direct = Confusion.of(y, model.predict(X))
    assert best.label == "RLS" and abs(best.confusion.counts - direct.counts).sum() <= 4  # rows at a border
    text = unescape(page(learned))
    true, predicted, rows = best.confusion.most_frequent(1)[0]
    assert f'<th scope="row">{true}</th><td class="left">{predicted}</td><td>{rows}</td>' in text
    label, rows, share = best.confusion.hardest(1)[0]
    assert f'<th scope="row">{label}</th><td>{rows}</td><td>{100 * share:.0f}</td>' in text


def test_tasks_are_named_with_the_accuracy_on_each(learned):
    text = page(learned)
    for k, name in enumerate(learned.tasks):
        assert f"{k + 1}. {name}</th>" in text
        assert f"{100 * (1 - learned.best.matrix.values[k, -1]):.1f}</td>" in text


def test_the_axis_is_that_of_the_lines_that_matter(outcome):
    near = [outcome("a", "A", [0.06, 0.06]), outcome("b", "B", [0.12, 0.12])]
    low, high = accuracy_range(Run((*near, outcome("c", "C", [0.9, 0.9], "floor"))))
    assert 75 <= low <= 88 and 100 < high < 102
    assert accuracy_range(Run((outcome("c", "C", [0.9, 0.9]),)))[0] == 0


def test_line_ends_carry_names_and_values_apart_from_each_other(run):
    ax = accuracy_figure(run).axes[0]
    said = {text.get_text(): text.xyann[1] for text in ax.texts}
    assert set(said) == {"Ridge retrained 95.0", "RLS 90.0", "LMS 50.0 ↓", "Fine-tuning 50.0 ↓"}
    heights, (low, high) = sorted(said.values()), ax.get_ylim()
    assert min(np.diff(heights)) > 0.05 * (high - low) and heights[0] >= low


@pytest.mark.parametrize("tasks", [1, 2, 5, 40])
def test_tasks_are_counted_in_whole_numbers(outcome, tasks):
    ax = accuracy_figure(Run((outcome("a", "A", [0.1] * tasks, tasks=tasks),))).axes[0]
    left, right = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if left <= tick <= right]
    assert 1 <= len(ticks) <= 10 and ticks == [round(tick) for tick in ticks]


def test_no_line_to_a_label_crosses_a_label(outcome):
    """Labels that are moved far from where their lines end, as by four learners that end at the same height."""
    names = ("Logistic retrained", "Ridge retrained", "Nearest mean", "RLS", "LMS")
    figure = accuracy_figure(Run(tuple(outcome(name, name, [0.5 + 1e-3 * k] * 2) for k, name in enumerate(names))))
    figure.draw_without_rendering()
    labels = figure.axes[0].texts
    for label in labels:
        line = label.arrow_patch.get_window_extent()
        assert all(line.x1 <= Text.get_window_extent(other).x0 for other in labels), label


@pytest.mark.parametrize("tasks", [5, 15, 40])
def test_heat_maps_have_no_number_before_a_task_is_learned_and_few_ticks(outcome, tasks):
    ax = matrices_figure(Run((outcome("a", "A", [0.1] * tasks, tasks=tasks),))).axes[0]
    assert len(ax.texts) == (tasks * (tasks + 1) // 2 if tasks <= 10 else 0) and len(ax.get_xticks()) <= 10


def test_only_relations_between_methods_of_the_run_are_checked_and_told():
    learners = {"lms": rm.LMS(step=0.1), "apa": rm.APA(step=0.1), "rls": rm.RLS()}
    stream = rm.streams.digits(5)[:1]
    found = compare([Contender(n, n, rm.ContinualClassifier(m)) for n, m in learners.items()], stream, certified=True)
    assert {c.name for c in found.relations} >= {"apa_without_a_buffer_is_lms"}
    text = page(found)
    told = text.partition("How these methods relate")[2]
    assert "LMS" in told and "ORFit" not in told and "Kalman" not in told
    alone = compare([Contender("rls", "RLS", rm.ContinualClassifier())], stream, certified=True)
    assert alone.relations == () and "methods relate" not in page(alone)


def test_every_learner_with_probabilities_has_figures_of_them(run):
    """Also where the best learner gives none: nearest mean, or a method of one's own."""
    sure = Reliability.of(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), [0, 1])
    others = [outcome for outcome in run.outcomes if outcome is not run.best]
    text = page(replace(run, outcomes=(run.best, *(replace(other, reliability=sure) for other in others))))
    shown = text[text.index("How far probabilities can be relied on") :]
    rows = shown[shown.index("<tbody>") : shown.index("</tbody>")]
    assert [other.label in rows for other in (run.best, *others)] == [False] + [True] * len(others)
    assert rows.count(f"{sure.log_loss:.3f}") == len(others)
    assert "How far probabilities" not in page(run)
    assert "Ridge retrained: calibration error" in shown  # the best reference of those that give some is drawn
    assert "first seed" not in text


def test_what_is_known_of_the_first_seed_only_says_so(seeded):
    confusion = Confusion.of([0, 1, 2, 2], [0, 1, 2, 1])
    sure = Reliability.of(np.eye(2), np.array([0, 1]), [0, 1])
    best, other = (replace(outcome, confusion=confusion, reliability=sure) for outcome in seeded.outcomes)
    assert page(replace(seeded, outcomes=(best, other))).count("ith the first seed") == 2
