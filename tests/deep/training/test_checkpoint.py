"""A run that was stopped continues from its checkpoint and ends with identical bits."""

import os
import subprocess
import sys

import numpy as np
import pytest

import remanence as rm

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from remanence.deep.training import trainer_state  # noqa: E402


class Stop(Exception):
    pass


class Stopping:
    """Cross entropy that raises at a given call, once."""

    def __init__(self, at=None):
        self.at, self.calls = at, 0

    def __call__(self, outputs, targets):
        self.calls += 1
        if self.calls == self.at:
            raise Stop
        return nn.functional.cross_entropy(outputs, targets)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


GUARDS = {
    "none": lambda model: None,
    "projection": lambda model: rm.deep.GradientProjection(model, energy=0.9),
    "owm": lambda model: rm.deep.OWM(model, damping=0.5),
    "ogd": lambda model: rm.deep.OGD(model, rank=9, of="label"),
}
SETTINGS = {
    "plain": {},
    "validation": {"validation": 0.25, "patience": 2, "scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau},
    "kept": {"keep_optimizer": True, "scheduler": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 9)},
    "by task": {"heads": "task", "scheduler": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1, 2])},
    "by batch": {"scheduler": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 9), "scheduler_step": "batch"},
    "growing": {"grow": "3"},
}
CASES = [(guard, "plain") for guard in GUARDS] + [("owm", kind) for kind in SETTINGS if kind != "plain"]


def result_of(fit, model):
    numbers = [fit.matrix.values.tolist(), fit.losses, fit.validation_losses, list(map(str, fit.reports))]
    return numbers, [value.numpy().tobytes() for value in model.state_dict().values()]


@pytest.mark.filterwarnings("ignore:the memory is full")
@pytest.mark.parametrize(("guard", "kind"), CASES)
def test_a_run_that_is_stopped_anywhere_ends_as_if_it_had_not_been(net, labelled, tmp_path, monkeypatch, guard, kind):
    monkeypatch.setattr(trainer_state, "SHARE", 0)  # save after every epoch, whatever it costs
    stream = labelled(3, rows=12)

    def train(loss, checkpoint=None):
        model = net(outputs=2 if kind == "growing" else 6)
        model = nn.Sequential(model[0], nn.Dropout(0.3), model[1], model[2]).float()
        fit = rm.deep.fit_stream(
            model,
            stream,
            optimizer=adam,
            guard=GUARDS[guard](model),
            loss=loss,
            epochs=3,
            batch_size=5,
            absorb_samples=8,
            checkpoint=checkpoint,
            **SETTINGS[kind],
        )
        return result_of(fit, model)

    whole = Stopping()
    expected = train(whole)
    path, starts = tmp_path / "run", 0
    for at in (1, 4, 5, 11):
        with pytest.raises(Stop):
            train(Stopping(at), path)
        starts += path.exists()
    rest = Stopping()
    assert train(rest, path) == expected
    assert starts == 3 and rest.calls < whole.calls, "the last one had less to do"
    again = Stopping(1)
    assert train(again, path) == expected and again.calls == 0, "a finished run is not trained again"


KILLED = """
import os, random, signal, sys, time
import numpy as np, torch, remanence as rm
from torch import nn
torch.set_num_threads(1)

def train(path, out):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Dropout(0.2), nn.Linear(20, 10))
    guard = rm.deep.GradientProjection(model, energy=0.9)
    fit = rm.deep.fit_stream(
        model, rm.streams.digits(3), optimizer=lambda p: torch.optim.Adam(p, lr=0.01), guard=guard,
        epochs=3, batch_size=32, absorb_samples=50, checkpoint=path,
    )
    arrays = {n.replace(".", "_"): v.numpy() for n, v in model.state_dict().items()}
    np.savez(out, matrix=fit.matrix.values, losses=np.array(fit.losses), **arrays)

folder, chance = sys.argv[1], random.Random(int(sys.argv[2]))
train(None, f"{folder}/whole.npz")
start = time.monotonic()
train(None, f"{folder}/whole.npz")
lasts = time.monotonic() - start
kills = 0
while True:
    child = os.fork()
    if not child:
        train(f"{folder}/checkpoint", f"{folder}/killed.npz")
        os._exit(0)
    if kills < 4:
        time.sleep(chance.uniform(0.1, 0.6) * lasts)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        break
    kills += 1
print(kills)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills its own children")
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, str(tmp_path), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "killed.npz") as killed:
        assert set(whole) == set(killed)
        for name in whole:
            np.testing.assert_array_equal(whole[name], killed[name], err_msg=name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "killed.npz", "whole.npz"]


def test_a_damaged_checkpoint_raises_an_error_and_left_alone(net, labelled, tmp_path):
    path = tmp_path / "run"
    rm.deep.fit_stream(net(), labelled(), optimizer=adam, checkpoint=path)
    good = path.read_bytes()
    middle = len(good) // 2
    for bad in (b"", good[:20], good[:-1], good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]):
        path.write_bytes(bad)
        with pytest.raises(rm.FileError, match="damaged"):
            rm.deep.fit_stream(net(), labelled(), optimizer=adam, checkpoint=path)
        assert path.read_bytes() == bad


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"epochs": 2}, "epochs was 1 and is 2"),
        ({"batch_size": 3}, "batch_size"),
        ({"seed": 1}, "seed"),
        ({"error": "squared"}, "error was 'zero_one'"),
        ({"heads": "task"}, "heads was 'single' and is 'task'"),
        ({"optimizer": lambda p: torch.optim.AdamW(p, lr=0.02)}, "lr of parameter group 0 was '0.01' and is '0.02'"),
        ({"optimizer": torch.optim.Adam}, "optimizer was 'AdamW"),
        ({"loss": nn.CrossEntropyLoss()}, "CrossEntropyLoss"),
        ({"stream": 0.0}, "stream"),
        ({"model": 13}, "model"),
        ({"guard": 1.0}, "damping=1.0"),
    ],
)
def test_the_checkpoint_of_another_run_raises_an_error_that_names_the_difference(net, labelled, tmp_path, change, says):
    path = tmp_path / "run"
    stream = labelled()
    rm.deep.fit_stream(net(), stream, optimizer=adam, checkpoint=path)
    content = path.read_bytes()
    change = dict(change)
    model = net(hidden=change.pop("model", 12))
    if "stream" in change:
        X = stream[1].X_test.copy()
        X[3, 2] += 1e-9 + change.pop("stream")
        stream = [stream[0], rm.Task("t1", stream[1].X, stream[1].Y, X, stream[1].Y_test)]
    if "guard" in change:
        change["guard"] = rm.deep.OWM(model, change["guard"])
    with pytest.raises(rm.FileError, match=f"another run.*{says}"):
        rm.deep.fit_stream(model, stream, checkpoint=path, **{"optimizer": adam, **change})
    assert path.read_bytes() == content


def test_a_state_that_requires_pickle_raises_an_error_at_the_first_save(net, labelled, same, tmp_path):
    class Odd(torch.optim.lr_scheduler.StepLR):
        def state_dict(self):
            return {"odd": object}

    model, odd = net(), lambda optimizer: Odd(optimizer, 1)
    with pytest.raises(rm.InputError, match="without checkpoint="):
        rm.deep.fit_stream(model, labelled(), optimizer=adam, scheduler=odd, epochs=2, checkpoint=tmp_path / "run")
    assert same(model, net()) and not list(tmp_path.iterdir())


def test_a_model_that_starts_elsewhere_goes_on_from_the_checkpoint_all_the_same(net, labelled, same, tmp_path):
    path = tmp_path / "new folder" / "run"
    first, other = net(), net()
    nn.init.zeros_(other[0].weight)
    a = rm.deep.fit_stream(first, labelled(), optimizer=adam, checkpoint=path)
    b = rm.deep.fit_stream(other, labelled(), optimizer=adam, checkpoint=str(path))
    assert same(first, other)
    np.testing.assert_array_equal(a.matrix.values, b.matrix.values)
    np.testing.assert_array_equal(a.seconds, b.seconds)


def test_string_labels_and_memories_of_a_function_are_restored(net, labelled, same, tmp_path):
    words = np.array(["ape", "bee", "cow", "dog"])
    stream = [rm.Task(t.name, t.X, words[t.Y], t.X_test, words[t.Y_test]) for t in labelled()]
    models = [net(), net()]
    for model in models:
        largest = lambda outputs, label: outputs.amax()  # another object each time, and the same name
        guard = rm.deep.OGD(model, of=largest)
        fit = rm.deep.fit_stream(
            model, stream, optimizer=adam, guard=guard, absorb_samples=2, checkpoint=tmp_path / "run"
        )
    assert same(*models) and guard.report() == fit.reports[-1]
