"""Edited facts: the published forms solve their own problems, and half of the edits can be taken back."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments.edit_runs import EditorRun, Figures  # noqa: E402
from experiments.published_edits import AlphaEdit, Memit, Rome, second_moment  # noqa: E402

from experiments import edited_facts, facts  # noqa: E402

SMALL = edited_facts.Size(30, 10, 6, 5, (5, 10), {"width": 16, "inner": 48, "layers": 2, "epochs": 40})
SOFT = edited_facts.Candidate("Editor, soft", (10.0, 0.7), False)


@pytest.fixture
def keys():
    generator = torch.Generator().manual_seed(0)
    preserved, K = torch.randn(200, 12, generator=generator), torch.randn(3, 12, generator=generator)
    return second_moment(preserved).double(), K.double(), torch.randn(3, 5, generator=generator).double()


def test_rome_meets_its_fact_with_the_least_change_of_preserved_answers(keys):
    C, K, R = keys
    D = Rome(C, 0.0).change(K[:1].double(), R[:1])
    torch.testing.assert_close(D @ K[0], R[0])
    away = torch.eye(12).double() - torch.outer(K[0], K[0]) / (K[0] @ K[0])
    assert float(torch.abs(D @ C @ away).max()) < 1e-10  # stationary: D C is a multiple of k
    with pytest.raises(ValueError, match="one fact"):
        Rome(C, 0.0).change(K, R)


def test_memit_is_where_its_objective_is_flat(keys):
    C, K, R = keys
    D = Memit(C, 7.0).change(K, R)
    assert float(torch.abs(7.0 * D @ C + (D @ K.T - R.T) @ K).max()) < 1e-10


def test_alphaedit_moves_nothing_outside_its_free_directions(keys):
    C, K, R = keys
    values, vectors = torch.linalg.eigh(C)
    D = AlphaEdit(C.float(), 1.0, 1.0).change(K.float(), R.float()).double()
    strong = vectors[:, values >= values.mean()]
    assert float(D.norm()) > 0.1 and float((D @ strong).abs().max()) < 1e-5


def test_half_of_the_edits_are_taken_back():
    trials = edited_facts.Trials(SMALL, 0)
    made, found = trials.judged(SOFT, SMALL.marks)
    assert isinstance(made, EditorRun) and len(found) == 2 and found[-1].norm > 1
    undone = edited_facts.half_undone(trials, made, SOFT)
    assert undone.apart < 1e-5 and len(made.editor.edits()) == 1


def test_edits_are_as_sure_as_the_whole_network_says():
    trials = edited_facts.Trials(SMALL, 0)
    made, _ = trials.judged(SOFT, SMALL.marks)
    assert isinstance(made, EditorRun)
    for rows, stated in zip(made.rows, made.stated, strict=True):
        wanted = trials.edits.wanted(rows)
        each = [made.net(part).softmax(1)[torch.arange(len(rows)), wanted] for part in trials.edits.stated(rows)]
        np.testing.assert_allclose(stated.sure(made.net), torch.stack(each).amin(0), rtol=1e-4)
    assert (made.weights != 1).any()


def test_values_of_the_first_network_are_those_without_edits():
    trials = edited_facts.Trials(SMALL, 0)
    made, _ = trials.judged(SOFT, SMALL.marks)
    assert isinstance(made, EditorRun)
    with made.editor.without_edits():
        found = made.edits.searched(made.net, np.arange(5, 10))
    for now, given in zip(found, trials.values[5], strict=True):
        torch.testing.assert_close(now, given)


def test_every_method_has_as_many_candidates():
    assert {len(set(edited_facts.candidates(name))) for name in edited_facts.SETTINGS} == {4}


def test_the_editor_is_chosen_to_be_ahead_in_both_claimed_figures():
    def found(efficacy, neighbourhood):
        return Figures(efficacy, 0.9, neighbourhood, 0.9, 0.0, 1.0)

    figures = {c: found(0.5, 0.5) for name in edited_facts.SETTINGS for c in edited_facts.candidates(name)}
    published, soft = edited_facts.candidates("MEMIT")[2], edited_facts.candidates("Editor, soft")
    figures |= {published: found(0.8, 0.9), soft[0]: found(0.99, 0.89), soft[1]: found(0.81, 0.91)}
    best = edited_facts.chosen(figures)
    assert published in best and soft[1] in best and soft[0] not in best and len(best) == len(edited_facts.SETTINGS)


def test_a_paraphrase_is_never_a_sentence_of_training():
    world = facts.World.drawn(20, 0)
    for trained, paraphrases in zip(world.trained, world.paraphrases, strict=True):
        assert not np.isin(paraphrases, trained).any()


def test_nobody_asked_about_is_edited_and_worlds_differ():
    choosing, reported = (edited_facts.Trials(SMALL, seed) for seed in (0, 1))
    for trials in (choosing, reported):
        assert not np.isin(trials.edits.others, trials.edits.subjects).any()
        assert (trials.edits.objects != trials.world.objects[trials.edits.subjects, 0]).all()
        assert len(np.unique(trials.world.names, axis=0)) == SMALL.subjects
    assert (choosing.world.objects != reported.world.objects).any()
