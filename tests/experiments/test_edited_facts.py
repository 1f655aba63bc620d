"""Edited facts: the published forms solve their own problems, and half of the edits can be taken back."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments.edit_runs import EditorRun  # noqa: E402
from experiments.published_edits import AlphaEdit, Memit, Rome, second_moment  # noqa: E402

from experiments import edited_facts, facts  # noqa: E402

SMALL = edited_facts.Size(30, 10, 4, 6, 5, (5, 10), {"width": 16, "inner": 48, "layers": 2, "epochs": 40})


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
    trials = edited_facts.Trials(SMALL)
    made, found = trials.reported_run("Editor, soft", (10.0,), 4.0)
    assert isinstance(made, EditorRun) and len(found) == 2 and found[-1].norm > 1
    fresh = trials.run("Editor, soft", (10.0,), 4.0, trials.reported)
    undone = edited_facts.half_undone(trials, made, fresh)
    assert undone.apart < 1e-5 and len(made.editor.edits()) == 1


def test_a_paraphrase_is_never_a_sentence_of_training():
    world = facts.World.drawn(20, 0)
    for trained, paraphrases in zip(world.trained, world.paraphrases, strict=True):
        assert not np.isin(paraphrases, trained).any()


def test_edited_and_choosing_subjects_are_apart():
    trials = edited_facts.Trials(SMALL)
    reported, choosing = trials.reported, trials.choosing
    groups = [reported.subjects, choosing.subjects, reported.others, choosing.others]
    together = np.concatenate(groups)
    assert len(np.unique(together)) == len(together)
    assert (reported.objects != trials.world.objects[reported.subjects, 0]).all()
