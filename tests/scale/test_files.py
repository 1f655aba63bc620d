"""Files, patterns, folders and addresses as data of a cluster: the same as one machine, and bad files are named."""

import json

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

import remanence as rm

NAMES = list("abcdefg")


def table(X, y, order=NAMES):
    return pa.table({**{name: X[:, NAMES.index(name)] for name in order}, "kind": y})


def frame(X):
    return table(X, X[:, 0]).drop_columns("kind").to_pandas()


def as_csv(X, y, order=NAMES):
    lines = [",".join([*order, "kind"])]
    for row, label in zip(X[:, [NAMES.index(n) for n in order]].tolist(), y.tolist(), strict=True):
        lines.append(",".join([*map(repr, row), str(label)]))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Parquet with row groups, CSV with columns in another order, JSON lines, one file without rows."""
    X, y, _, _ = data
    made, cuts = tmp_path_factory.mktemp("tables"), np.array_split(np.arange(len(X)), 6)
    for k, part in enumerate(cuts[:3]):
        pq.write_table(table(X[part], y[part]), made / f"{k}.parquet", row_group_size=100)
    for k, part in enumerate(cuts[3:5], 3):
        (made / f"{k}.csv").write_text(as_csv(X[part], y[part], NAMES[::-1]))
    rows = [dict(zip([*NAMES, "kind"], [*x, k], strict=True)) for x, k in zip(X.tolist(), y.tolist(), strict=True)]
    (made / "5.jsonl").write_text("\n".join(json.dumps(rows[i]) for i in cuts[5]) + "\n")
    (made / "6.csv").write_text(",".join([*NAMES, "kind"]) + "\n")
    return made


def test_a_folder_equals_one_machine(data, folder):
    X, y, _, _ = data
    one = rm.ContinualClassifier(rm.RLS(ridge=1e-3)).fit(X, y)
    many = rm.scale.fit(rm.ContinualClassifier(rm.RLS(ridge=1e-3)), folder, "kind")
    assert many.feature_names_in_.tolist() == NAMES and many.n_seen_ == len(X)
    assert many.classes_.tolist() == one.classes_.tolist()
    np.testing.assert_allclose(many.coef_, one.coef_, atol=1e-10 * abs(one.coef_).max())
    assert (many.predict(frame(X)) == one.predict(X)).all()


def test_the_same_bits_with_a_cluster_and_equal_in_batches(data, folder, cluster, digest, monkeypatch):
    X, _, _, _ = data
    patterns = [folder / "*.parquet", str(folder / "*.csv"), folder / "5.jsonl"]
    whole = rm.scale.fit(rm.ContinualClassifier(), patterns, "kind")
    with Client(cluster):
        assert digest(rm.scale.fit(rm.ContinualClassifier(), patterns, "kind")) == digest(whole)
    monkeypatch.setattr("remanence.tables.parquet.ROWS_AT_ONCE", 7)
    batched = rm.scale.fit(rm.ContinualClassifier(), patterns, "kind")
    assert batched.n_seen_ == len(X)
    np.testing.assert_allclose(batched.coef_, whole.coef_, atol=1e-10 * abs(whole.coef_).max())


def test_further_rows_and_predictions_and_errors(data, folder):
    X, y, _, _ = data
    model = rm.ContinualClassifier().fit(frame(X), y)
    twice = rm.scale.partial_fit(model, folder, "kind")
    assert twice.n_seen_ == 2 * len(X) and model.n_seen_ == len(X)
    back = rm.scale.unlearn(twice, folder, "kind")
    assert back.n_seen_ == len(X)
    np.testing.assert_allclose(back.coef_, model.coef_, atol=1e-8 * abs(model.coef_).max())
    found = rm.scale.predict(model, folder)
    assert found.dtype == y.dtype and np.isnan(found.chunks[0]).all()
    assert (found.compute() == model.predict(frame(X))).all()
    assert rm.scale.evaluate(model, folder, "kind").accuracy == pytest.approx(model.score(frame(X), y))


def test_numeric_targets_and_columns_without_names(data, tmp_path):
    X, _, t, _ = data
    np.savez(tmp_path / "a.npz", X=X[:300], t=t[:300], u=-t[:300])
    np.savez(tmp_path / "b.npz", X=X[300:], t=t[300:], u=-t[300:])
    one = rm.ContinualRegressor().fit(X, np.column_stack([t, -t]))
    many = rm.scale.fit(rm.ContinualRegressor(), tmp_path / "*.npz", ["t", "u"])
    np.testing.assert_allclose(many.coef_, one.coef_, atol=1e-10 * abs(one.coef_).max())
    errors = rm.scale.evaluate(many, tmp_path, ["t", "u"]).errors["output 1"]
    assert errors["r2"] == pytest.approx(1 - ((one.predict(X)[:, 1] + t) ** 2).sum() / ((t - t.mean()) ** 2).sum())
    np.save(tmp_path / "rows.npy", X)
    nameless = rm.ContinualRegressor().fit(X, t)
    np.testing.assert_allclose(rm.scale.predict(nameless, tmp_path / "rows.npy").compute(), nameless.predict(X))


def test_addresses_with_patterns_and_folders(data, digest):
    X, y, _, _ = data
    system = fsspec.filesystem("memory")
    for k, part in enumerate(np.array_split(np.arange(len(X)), 3)):
        with system.open(f"/scale/{k}.parquet", "wb") as file:
            pq.write_table(table(X[part], y[part]), file)
    with system.open("/scale/_SUCCESS", "wb"):
        pass
    found = {
        digest(rm.scale.fit(rm.ContinualClassifier(), where, "kind"))
        for where in ("memory://scale/*.parquet", "memory://scale", [f"memory://scale/{k}.parquet" for k in range(3)])
    }
    assert len(found) == 1
    with pytest.raises(rm.FileError, match=r"no file matches"):
        rm.scale.fit(rm.ContinualClassifier(), "memory://scale/*.csv", "kind")


def test_columns_of_other_kinds_through_table_features(tmp_path):
    rows = ["Rome,1.5,yes", "Oslo,2.5,no", "Lima,0.5,yes", "Rome,3.0,no", "Oslo,1.0,yes", "Lima,2.0,no"]
    for k in range(3):
        (tmp_path / f"{k}.csv").write_text("\n".join(["city,price,kind", *rows[2 * k : 2 * k + 2]]) + "\n")
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "all.csv").write_text("\n".join(["city,price,kind", *rows]) + "\n")
    settings = rm.ContinualClassifier(features=rm.TableFeatures())
    many, one = (rm.scale.fit(settings, where, "kind") for where in (tmp_path / "*.csv", tmp_path / "all"))
    assert many.features_.kinds_ == {"city": "category", "price": "number"} and many.n_seen_ == one.n_seen_ == 6
    predicted = [rm.scale.predict(model, tmp_path / "all").compute().tolist() for model in (many, one)]
    assert predicted[0] == predicted[1] and len(predicted[0]) == 6


def test_random_features_take_their_scale_from_the_first_rows(data, folder):
    X = data[0]
    features = rm.RandomFeatures(20, activation="tanh")
    many = rm.scale.fit(rm.ContinualClassifier(rm.RLS(ridge=0.1), features=features), folder, "kind")
    assert many.features_.scale_ == rm.RandomFeatures(20, activation="tanh").fit(X[:100]).scale_
    assert many.n_seen_ == len(X)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,c,d,e,f,g,kind\n1,2,3,4,5,6,,1\n", r"bad\.csv.*missing"),
        ("a,b,c,d,e,f,kind\n1,2,3,4,5,6,1\n", r"bad\.csv.*'g'"),
        ("a,b,c,d,e,f,g,kind\n1,2,3,4,5,6,x,1\n", r"bad\.csv"),
        ("a,b,c,d,e,f,g,kind\n1,2,3,4,5,6,7,red\n", r"bad\.csv.*red"),
        ("a,b,c,d,e,f,g\n1,2,3,4,5,6,7\n", r"bad\.csv.*'kind'"),
    ],
    ids=["missing", "columns", "text", "labels", "no labels"],
)
def test_a_bad_file_fails_the_call_with_its_name(data, folder, tmp_path, digest, content, message):
    X, y, _, _ = data
    (tmp_path / "bad.csv").write_text(content)
    model = rm.ContinualClassifier().fit(frame(X), y)
    before = digest(model)
    with pytest.raises(rm.InputError, match=message):
        rm.scale.partial_fit(model, [folder, tmp_path / "bad.csv"], "kind")
    with pytest.raises(rm.InputError, match=message):
        rm.scale.fit(model, [folder / "0.parquet", tmp_path / "bad.csv"], "kind")
    assert digest(model) == before


def test_bad_use_of_files(folder, tmp_path):
    model = rm.ContinualClassifier()
    with pytest.raises(rm.InputError, match="labels"):
        rm.scale.fit(model, folder)
    with pytest.raises(rm.InputError, match="label column"):
        rm.scale.fit(model, folder, np.zeros(3))
    with pytest.raises(rm.InputError, match="standard input"):
        rm.scale.fit(model, "-", "kind")
    with pytest.raises(rm.FileError, match="every worker"):
        rm.scale.fit(model, tmp_path / "absent.csv", "kind")
    with pytest.raises(rm.InputError, match="kinds"):
        rm.scale.fit(model, folder / "0.parquet", "kinds")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(rm.InputError, match="rows"):
        rm.scale.fit(model, tmp_path / "empty.csv", "kind")
