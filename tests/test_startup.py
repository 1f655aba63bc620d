"""Starting is cheap: what the commands load, what they cost, and no waiting at the first call of a method."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import remanence as rm
from remanence.cli import main
from remanence.methods import method_classes

FLOWERS = Path(__file__).parents[1] / "examples" / "flowers"
HEAVY = ["joblib", "matplotlib", "pandas", "polars", "pyarrow", "sklearn", "torch", "jinja2", "numba"]
HEAVY += ["scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats"]
FIRST = 0.05  # seconds of CPU that a first call may take more than the second


def fresh_python(*arguments):
    """Standard output of a new Python process, and its CPU in seconds."""
    source = str(Path(rm.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("flowers") / "flowers.safetensors"
    with pytest.raises(SystemExit) as ended:
        main(["learn", str(path), str(FLOWERS / "monday.csv"), "--label", "kind"])
    assert not ended.value.code
    return path


@pytest.mark.parametrize("command", ["predict", "evaluate", "inspect", "--help"])
def test_a_command_that_does_not_learn_loads_nothing_heavy(model, tmp_path, command):
    arguments = {
        "predict": [model, FLOWERS / "new.csv", "-o", tmp_path / "answers.csv"],
        "evaluate": [model, FLOWERS / "tuesday.csv"],
        "inspect": [model],
        "--help": [],
    }[command]
    code = (
        "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules)); from remanence.cli import main; "
    )
    out, _ = fresh_python("-c", f"{code} main()", command, *arguments)
    loaded = set(out.splitlines()[-1].split())
    assert "remanence.cli" in loaded
    reads = {"pyarrow"} if command in ("predict", "evaluate") else set()  # it parses the table, in a fifth of a second
    linalg, _ = fresh_python(
        "-c", "import sys, scipy.linalg; print(*sys.modules)"
    )  # (up to SciPy 1.15 with scipy.sparse)
    assert (loaded & set(HEAVY)) - set(linalg.split()) == reads, loaded & set(HEAVY)


def test_predicting_takes_less_cpu_than_importing_scikit_learn(model, tmp_path):
    """A second at most; a slow machine is measured by an import."""
    arguments = ["predict", model, FLOWERS / "new.csv", "--overwrite", "-o", tmp_path / "answers.csv"]
    for _ in range(3):  # the machine may be busy
        _, cpu = fresh_python("-m", "remanence", *arguments)
        _, allowed = fresh_python("-c", "import sklearn.base")
        if cpu < max(1.0, allowed):
            return
    pytest.fail(f"predicting took {cpu:.2f} s of CPU, the import of sklearn.base {allowed:.2f} s")


FIRST_CALLS = """
import json, time
import numpy as np
import remanence as rm
from remanence.methods import method_classes

seconds = {}

def measure(name, call):
    started = time.process_time(); found = call()
    between = time.process_time(); call()
    seconds[name] = between - started, time.process_time() - between
    return found

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((6, 8)), rng.standard_normal((6, 2))
"""

METHOD_CALLS = """
method = rm.{}
state = measure("init", lambda: method.init(8, 2))
after, _ = measure("track", lambda: method.track(state, X, Y))
measure("update", lambda: method.update(state, X, Y))
measure("weights", lambda: method.weights(after))
measure("predict", lambda: method.predict(after, X))
"""

KALMAN_CALLS = """
model = rm.kalman.LinearGaussian(0.9 * np.eye(8), np.eye(8), X[:, None, :], np.eye(1), np.zeros(8), np.eye(8))
filtered = measure("filter", lambda: rm.kalman.filter(model, Y[:, :1], form="{}"))
measure("smooth", lambda: rm.kalman.smooth(model, filtered))
"""

SETTINGS = {"Kalman": ["drift=0.1"], "RLS": ["", "forget=0.9", "forget=0", "ridge='auto'"]}
CALLS = {
    **{
        f"{name}({settings})": METHOD_CALLS.format(f"{name}({settings})")
        for name in method_classes()
        for settings in SETTINGS.get(name, [""])
    },
    **{f"kalman.filter {form}": KALMAN_CALLS.format(form) for form in ("covariance", "root")},
}


@pytest.mark.parametrize("case", CALLS)
def test_the_first_call_takes_no_longer_than_the_second(case):
    late = {}
    for _ in range(3):  # the machine may be busy: the best of three processes
        out, _ = fresh_python("-c", FIRST_CALLS + CALLS[case] + "print(json.dumps(seconds))")
        waits = {call: first - second for call, (first, second) in json.loads(out).items()}
        late = {call: min(wait, late.get(call, wait)) for call, wait in waits.items()}
        if max(late.values()) < FIRST:
            return
    pytest.fail(f"first calls took longer than the second by {late}")
