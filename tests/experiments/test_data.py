"""Loaders read what the packages ship, at any size, and refuse everything else; nothing is downloaded here."""

import gzip
import json
import struct

import numpy as np
import pytest
from PIL import Image

import remanence as rm
from experiments import data

COUNTS = (10, 2)


def write_idx(path, array):
    raw = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def pixels(rows, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (rows, width), dtype=np.uint8)


def write_mnist(folder, ending=""):
    for part, rows in (("train", 10), ("t10k", 2)):
        write_idx(folder / f"{part}-images-idx3-ubyte{ending}", pixels(rows, 784).reshape(-1, 28, 28))
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", np.arange(rows, dtype=np.uint8))


def write_cifar(folder):
    sheet = pixels(10, 3072)
    for k in range(5):
        Image.fromarray(sheet[2 * k : 2 * k + 2].reshape(2, 1024, 3)).save(folder / f"data_batch_{k + 1}.png")
    Image.fromarray(pixels(2, 3072, 1).reshape(2, 1024, 3)).save(folder / "test_batch.png")
    (folder / "train_lables.json").write_text(json.dumps(list(range(10))))
    (folder / "test_lables.json").write_text("[3, 4]")


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("load", [data.mnist, data.fashion_mnist])
def test_idx_files_are_read_plain_and_gzipped(tmp_path, load, ending):
    write_mnist(tmp_path, ending)
    X, y, X_test, y_test = load(tmp_path, COUNTS)
    np.testing.assert_array_equal(X, pixels(10, 784))
    np.testing.assert_array_equal(y, np.arange(10))
    assert X_test.shape == (2, 784) and y_test.tolist() == [0, 1] and data.images(X).shape == (10, 28, 28)


def test_png_sheets_are_read_in_order(tmp_path):
    write_cifar(tmp_path)
    X, y, X_test, y_test = data.cifar10(tmp_path, COUNTS)
    np.testing.assert_array_equal(X, pixels(10, 3072))
    np.testing.assert_array_equal(X_test, pixels(2, 3072, 1))
    assert y.tolist() == list(range(10)) and y_test.tolist() == [3, 4]
    np.testing.assert_array_equal(data.images(X)[1, 2, 3], X[1, 3 * (2 * 32 + 3) : 3 * (2 * 32 + 3) + 3])


@pytest.mark.parametrize("load", [data.mnist, data.fashion_mnist, data.cifar10])
def test_missing_files_say_how_to_get_them(tmp_path, load):
    with pytest.raises(rm.FileError, match="make data"):
        load(tmp_path / "nowhere")


def test_other_counts_are_refused(tmp_path):
    write_mnist(tmp_path)
    with pytest.raises(rm.FileError, match="expected 60000 train rows"):
        data.mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.arange(9, dtype=np.uint8))
    with pytest.raises(rm.FileError, match="as many labels"):
        data.mnist(tmp_path, COUNTS)


@pytest.mark.parametrize("name", data.IDX_FILES)
@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-1], lambda raw: raw + b"1", lambda raw: b"", lambda raw: b"<html>"]
)
def test_damaged_idx_files_are_refused(tmp_path, name, damage):
    write_mnist(tmp_path)
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(rm.FileError, match="make data"):
        data.mnist(tmp_path, COUNTS)


def test_damaged_gzip_and_png_and_json_are_refused(tmp_path):
    write_mnist(tmp_path, ".gz")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(rm.FileError, match="gzipped"):
        data.mnist(tmp_path, COUNTS)
    write_cifar(tmp_path)
    sheet = (tmp_path / "test_batch.png").read_bytes()
    (tmp_path / "test_batch.png").write_bytes(sheet[: len(sheet) // 2])
    with pytest.raises(rm.FileError, match="PNG"):
        data.cifar10(tmp_path, COUNTS)
    (tmp_path / "test_batch.png").write_bytes(sheet)
    (tmp_path / "test_lables.json").write_text("[3, ")
    with pytest.raises(rm.FileError, match="labels"):
        data.cifar10(tmp_path, COUNTS)


def test_what_is_there_is_not_fetched_and_its_pixels_are_checked(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    write_mnist(tmp_path / "mnist")
    monkeypatch.setattr(data, "_call", lambda *_: pytest.fail("nothing to fetch"))
    home, _, *rest = data.SETS["mnist"]
    load = lambda folder: data.mnist(folder, COUNTS)
    monkeypatch.setitem(data.SETS, "mnist", (home, load, *rest))
    with pytest.raises(rm.FileError, match="SHA-256"):
        data.bring("mnist", tmp_path)
    right = data.fingerprint(load(tmp_path / "mnist"))
    monkeypatch.setitem(data.SETS, "mnist", (home, load, *rest[:-1], right))
    assert len(data.bring("mnist", tmp_path)[0]) == 10


def test_a_failing_client_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert data.main(["mnist", "--folder", str(tmp_path)]) == 1
    assert "npm" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        data.main(["imagenet"])
