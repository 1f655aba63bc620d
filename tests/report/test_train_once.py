"""A run trains every learner once per seed and draws every figure once."""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator, ClassifierMixin

import remanence as rm
from remanence.cli import main
from remanence.estimators import ContinualClassifier, Finetune, Joint
from remanence.report import Contender, repeat

TASKS = 5
LEARNED = Counter()  # number of rows: how often a block of so many was learned


def called(*arguments):
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as leaving:
        assert not leaving.code


def test_a_run_learns_every_task_once_per_seed_and_draws_every_figure_once(tmp_path, monkeypatch, capsys):
    learned, saved = Counter(), Counter()

    def counting(kind, real):
        def partial_fit(self, X, y, *rest):
            name = type(self.method).__name__ if kind is ContinualClassifier else kind.__name__
            if X.shape[1] == 64:  # a claim about the methods has smaller rows
                labels = np.unique(y)
                learned[name, "all" if len(labels) == 10 else labels[0] // 2] += 1
            return real(self, X, y, *rest)

        return partial_fit

    for kind in (ContinualClassifier, Finetune, Joint):
        monkeypatch.setattr(kind, "partial_fit", counting(kind, kind.partial_fit))
    real_savefig = Figure.savefig

    def savefig(self, *args, **kwargs):
        saved[self, kwargs["format"]] += 1
        return real_savefig(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", savefig)
    called("run", "--methods", "finetune,lms,apa,icl,rls,joint", "--out", tmp_path / "run")
    assert "RLS keeps" in capsys.readouterr().out
    assert {name for name, _ in learned} == {"Finetune", "LMS", "APA", "ICL", "RLS", "Joint"}
    for name in ("LMS", "APA", "ICL", "RLS"):  # once, and the first task as a warm-up
        assert [learned[name, k] for k in range(TASKS)] == [2, 1, 1, 1, 1] and not learned[name, "all"]
    for name in ("Finetune", "Joint"):  # once; the warm-up is the joint copy that its certificate compares with
        assert [learned[name, k] for k in range(TASKS)] == [1, 1, 1, 1, 1] and learned[name, "all"] == 1
    assert set(saved.values()) == {1}
    figures = {figure for figure, _ in saved}
    maps = [[ax.get_title() for ax in figure.axes].count("RLS") for figure in figures]
    assert sorted(maps) == [0, 0, 1]  # accuracy, reliability, and the matrices of all learners
    assert sorted(kind for _, kind in saved) == ["png", "png", "svg", "svg", "svg"]


class Counting(ClassifierMixin, BaseEstimator):
    """A classifier that counts, over all its copies, the rows each task was learned with."""

    def partial_fit(self, X, y):
        LEARNED[len(X)] += 1
        self.label_ = y[0]
        return self

    def predict(self, X):
        return np.full(len(X), getattr(self, "label_", 0))


def test_several_seeds_learn_every_task_once_each():
    stream = [rm.Task(f"t{k}", np.ones((k + 2, 2)), np.zeros(k + 2, int)) for k in range(3)]
    for certified, expected in ((False, {2: 4, 3: 2, 4: 2}), (True, {2: 3, 3: 2, 4: 2, 9: 1})):
        LEARNED.clear()
        repeat(lambda seed: [Contender("c", "C", Counting())], lambda seed: stream, (0, 1), certified=certified)
        assert dict(LEARNED) == expected
