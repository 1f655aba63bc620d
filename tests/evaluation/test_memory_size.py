"""What a learner carries is counted: every array once, however it is held."""

import numpy as np
import pytest

import remanence as rm
from remanence.evaluation.memory_size import memory_size


def test_arrays_are_found_wherever_they_are_and_counted_once():
    shared = np.zeros(100)
    nested = {"a": [shared, shared[10:20]], "b": (np.ones((3, 3), np.float32), "text", None, 7)}
    assert memory_size(nested) == 800 + 36
    assert memory_size([]) == 0


def test_an_object_that_holds_itself_is_weighed_too():
    loop: dict[str, object] = {"x": np.zeros(4)}
    loop["self"] = loop
    assert memory_size(loop) == 32


@pytest.mark.parametrize(("method", "least"), [(rm.LMS(), 8 * 5 * 2), (rm.RLS(), 8 * 5 * 5), (rm.ICL(), 8 * 5 * 2)])
def test_a_state_weighs_at_least_what_it_must_hold(method, least):
    rng = np.random.default_rng(0)
    task = rm.Task("t", rng.standard_normal((40, 5)), rng.standard_normal((40, 2)))
    matrix = rm.evaluate(method, [task])
    assert least <= matrix.memory < 20 * least


def test_joint_training_carries_all_rows_and_rls_does_not():
    stream = rm.streams.digits(5)
    rows = sum(task.X.nbytes for task in stream)
    assert rm.evaluate(rm.Joint(), stream).memory > rows > 5 * rm.evaluate(rm.ContinualClassifier(), stream).memory


def test_a_network_weighs_what_its_parameters_do_and_not_the_rows_it_was_shown():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(64, 10)
    stream = [rm.Task(task.name, task.X.astype(np.float32), task.Y) for task in rm.streams.digits(2)]
    fit = rm.deep.fit_stream(
        model, stream, loss=torch.nn.functional.cross_entropy, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), epochs=1
    )
    assert fit.matrix.memory == 4 * 650
