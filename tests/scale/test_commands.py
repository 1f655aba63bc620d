"""The commands with a cluster: the model of one machine, every row once, whatever the number of workers."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

import remanence as rm
from remanence.cli import main
from remanence.scale.jobs import learn as cluster_learn
from remanence.scale.jobs.cluster import open_client
from remanence.scale.jobs.learn import group_size, learn_files
from remanence.store import read
from remanence.store.jobs.learn import learn_session
from remanence.store.jobs.learn_options import LearnOptions

OPTIONS = LearnOptions(label="kind")


def write(path, X, y):
    if path.suffix == ".npz":
        np.savez(path, X=X, kind=y)
    elif path.suffix == ".csv":
        lines = [",".join([*(f"X{j}" for j in range(X.shape[1])), "kind"])]
        lines += [",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
        path.write_text("\n".join(lines) + "\n")
    else:
        columns = {f"X{j}": X[:, j] for j in range(X.shape[1])} | {"kind": y}
        pq.write_table(pa.table(columns), path, row_group_size=90)
    return path


@pytest.fixture
def tables(data, tmp_path):
    """Twelve tables of three formats; some classes are in some of them only."""
    X, y, _, _ = data
    y, parts = np.array([f"class {k}" for k in y]), np.array_split(np.arange(len(X)), 12)
    endings = [".csv", ".npz", ".parquet"]
    return [write(tmp_path / f"{k:02}{endings[k % 3]}", X[part], y[part]) for k, part in enumerate(parts)]


@pytest.fixture(scope="module")
def address():
    """The address of a cluster of two workers, threads of this process."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"
    ) as made:
        yield made.scheduler_address


@pytest.fixture
def call(capsys):
    def called(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return called


def learned(model, paths, client=None, options=OPTIONS, **settings):
    with learn_session(model, options, **settings) as job:
        if client is None:
            for path in paths:
                job.learn(path)
        else:
            learn_files(job, paths, client)
    return job.report


def entries(model):
    return [(e.fingerprint, e.name, e.rows, e.action, e.begins, e.span) for e in read(model).ledger]


def content(model):
    kept = read(model)
    return kept.learner.coef_.tobytes(), kept.learner.intercept_.tobytes(), kept.row_keys.words.tobytes()


def test_learning_equals_one_machine_with_the_same_ledger(tables, tmp_path):
    one, found = tmp_path / "one", set()
    before = learned(one, tables).to_dict()
    for workers in (1, 2, 3):
        model = tmp_path / f"{workers}"
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster) as client,
        ):
            assert len(client.nthreads()) == workers
            assert learned(model, tables, client).to_dict() == before
            assert learned(model, tables, client).to_dict()["learned"] == 0
        assert entries(model) == entries(one) and read(model).notes == read(one).notes
        ours, theirs = read(model).learner, read(one).learner
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-11 * abs(theirs.coef_).max())
        found.add(content(model))
    assert len(found) == 1 and read(one).row_keys.words.tobytes() in next(iter(found))


@pytest.mark.parametrize("ledger", [None, "rows"])
def test_rows_that_several_files_of_one_run_hold_are_learned_once(tables, data, address, tmp_path, ledger):
    X, y, _, _ = data
    y = np.array([f"class {k}" for k in y])
    size = len(np.array_split(np.arange(len(X)), 12)[1])
    copy = write(tmp_path / "copy of 01.csv", *(np.split(v, [size, 2 * size])[1] for v in (X, y)))
    grown = write(tmp_path / "grown.csv", np.vstack([X[:size], X[:40] + 1]), np.append(y[:size], y[:40]))
    paths, options = [*tables[:4], copy, grown, *tables[4:]], LearnOptions(label="kind", ledger=ledger)
    one, many = tmp_path / "one", tmp_path / "many"
    before = learned(one, paths, options=options).to_dict()
    with Client(address) as client:
        assert learned(many, paths, client, options).to_dict() == before
    assert before["learned"] == len(X) + 40 and entries(many) == entries(one)


def test_groups_of_files(tables, address, tmp_path, monkeypatch):
    assert [group_size(n) for n in (1, 255, 256, 600, 10**6)] == [1, 1, 1, 2, 16]
    monkeypatch.setattr(cluster_learn, "MANY", 3)
    one, many = tmp_path / "one", tmp_path / "many"
    tables[7].write_text(tables[0].read_text().partition("\n")[0] + "\n" if tables[7].suffix == ".csv" else "")
    bad = tmp_path / "bad.csv"
    bad.write_text(tables[0].read_text().replace("class", "", 1).replace("X0", "Z"))
    with warnings.catch_warnings(), Client(address) as client:
        warnings.simplefilter("ignore")
        with pytest.raises(rm.InputError, match=r"bad\.csv"):
            learned(many, [*tables[:7], *tables[8:10], bad, *tables[10:]], client)
        assert read(many).ledger.rows() == read(many).learner.n_seen_
        learned(one, [*tables[:7], *tables[8:10]])
        assert entries(many) == entries(one)
        assert learned(many, [*tables[:7], *tables[8:], tables[0]], client).total("learned") > 0
    learned(one, [*tables[:7], *tables[8:]])
    assert entries(many) == entries(one)


def test_columns_of_other_kinds_and_random_features(address, tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for k in range(5):
        paths.append(tmp_path / f"{k}.csv")
        cities = rng.choice(["Rome", "Oslo", "Lima", "Bern"][: 2 + k // 2], 60)
        prices = rng.standard_normal(60).tolist()
        rows = [f"{v!r},{c},{'yes' if v > 0 else 'no'}" for v, c in zip(prices, cities, strict=True)]
        paths[-1].write_text("\n".join(["price,city,kind", *rows]) + "\n")
    one, many = tmp_path / "one", tmp_path / "many"
    with Client(address) as client:
        assert learned(many, paths, client).to_dict() == learned(one, paths).to_dict()
        ours, theirs = read(many).learner, read(one).learner
        assert sorted(ours.features_.get_feature_names_out()) == sorted(theirs.features_.get_feature_names_out())
        options = LearnOptions(label="kind", ignored=("city",), features="random:30")
        learned(tmp_path / "c", paths, client, options)
    learned(tmp_path / "d", paths, options=options)
    ours, theirs = (read(tmp_path / name).learner for name in "cd")
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-10 * abs(theirs.coef_).max())


def test_the_commands(tables, address, call, tmp_path):
    where, model, one = ("--cluster", address), tmp_path / "model", tmp_path / "one"
    code, out, _ = call("learn", model, *tables[:8], "--label", "kind", "--json", "--save-every", 5, *where)
    assert code == 0 and json.loads(out) == json.loads(call("learn", one, *tables[:8], "--label", "kind", "--json")[1])
    pattern = str(tmp_path / "*.parquet")
    found = [json.loads(call("evaluate", model, pattern, "--json", *more)[1]) for more in ((), where)]
    assert found[0] == found[1] and found[0]["rows"] > 0
    for folder, more in (("a", ()), ("b", where)):
        assert call("predict", model, pattern, "-o", tmp_path / folder, *more)[0] == 0
    for path in (tmp_path / "a").iterdir():
        assert pq.read_table(path).equals(pq.read_table(tmp_path / "b" / path.name))
    assert len(list((tmp_path / "b").iterdir())) == 4
    code, _, err = call("predict", model, pattern, "-o", tmp_path / "b", *where)
    assert code == 2 and "exists already" in err and "--force" in err
    for m, more in ((one, ()), (model, where)):
        code, out, _ = call("unlearn", m, tables[3], tables[4], "--json", *more)
        assert code == 0 and not json.loads(out)["unsearched"]
    assert [e[:4] for e in entries(model)] == [e[:4] for e in entries(one)]
    ours, theirs = read(model).learner, read(one).learner
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-10 * abs(theirs.coef_).max())


def test_a_bad_file_is_named_and_those_before_it_are_kept(tables, address, call, tmp_path):
    tables[5].write_bytes(b"PAR1 and nothing else")
    code, out, err = call("learn", tmp_path / "m", *tables, "--label", "kind", "--json", "--cluster", address)
    assert code == 2 and tables[5].name in err and len(json.loads(out)["files"]) == 5
    kept = read(tmp_path / "m")
    assert kept.ledger.rows() == kept.learner.n_seen_ and {e.name for e in kept.ledger} == {p.name for p in tables[:5]}


def test_bad_use(tables, call, tmp_path, monkeypatch):
    model = tmp_path / "m"
    for arguments, message in (
        (["--workers", 1, "--cluster", "tcp://127.0.0.1:1"], "--workers, --cluster"),
        (["--cluster", "nowhere"], "--cluster ADDRESS"),
        (["--workers", 0], "workers"),
    ):
        code, _, err = call("learn", model, tables[0], "--label", "kind", *arguments)
        assert code == 2 and message in err and not model.exists()
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    code, _, err = call("learn", model, tables[0], "--label", "kind", "--workers", 1)
    assert code == 2 and "remanence[scale]" in err


def test_models_that_cannot_be_merged_are_refused(tables, address, tmp_path):
    with Client(address) as client:
        for options, message in (
            (LearnOptions(label="kind", method="lms"), "merged"),
            (LearnOptions(label="kind", settings={"ridge": "loo"}), "ridge"),
            (LearnOptions(label="kind", undo="pieces"), "per piece"),
        ):
            with pytest.raises(rm.InputError, match=message):
                learned(tmp_path / "m", tables, client, options)
        with pytest.raises(rm.InputError, match="standard input"):
            learned(tmp_path / "m", ["-"], client)
    assert not (tmp_path / "m").exists()


@pytest.mark.sweep
def test_processes_on_this_machine(tables, call, tmp_path):
    found = set()
    for workers in (1, 2, 3):
        assert call("learn", tmp_path / f"{workers}", *tables, "--label", "kind", "--workers", workers)[0] == 0
        found.add(content(tmp_path / f"{workers}"))
    assert len(found) == 1
    with open_client(workers=1) as client:
        assert client.run(lambda: rm.parallel.thread_count.thread_count()) and len(client.nthreads()) == 1


def test_a_cluster_that_was_never_reached_is_no_active_client(data):
    X, y, _, _ = data
    import dask.array as da

    with pytest.raises(OSError):
        Client("tcp://127.0.0.1:1", timeout=0.5)
    blocks = da.from_array(X, chunks=(100, 7)), da.from_array(y, chunks=100)
    assert rm.scale.fit(rm.ContinualClassifier(), *blocks).n_seen_ == len(X)
