"""A file that is not exactly as it was written raises a FileError that says what is wrong."""

import ast
import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load as reference_load
from safetensors.numpy import save as reference_save

import remanence as rm
from remanence.store.format.safetensors_file import BEFORE, packed, parse
from remanence.store.model_file import from_bytes

from .conftest import content_of

ROOM = Path(rm.__file__).parent / "store"


@pytest.fixture
def content(small):
    return content_of(small)


def test_the_reference_reader_of_safetensors_reads_the_same(content, tmp_path):
    words, arrays = parse(content)
    theirs = reference_load(content)
    assert theirs.keys() == arrays.keys() and len(arrays) > 5
    assert all((theirs[name] == arrays[name]).all() for name in arrays)
    (tmp_path / "m.safetensors").write_bytes(content)
    with safetensors.safe_open(tmp_path / "m.safetensors", framework="np") as file:
        assert file.metadata() == words
    assert json.loads(words["about"])["labels"] == [0, 1, 2]


def test_the_same_model_gives_the_same_bytes(content, small):
    assert content_of(small) == content


def test_every_one_of_ten_thousand_flipped_bits_is_refused(content):
    """Half of them in the header, where words and places are, half among the numbers."""
    rng = np.random.default_rng(0)
    header = 8 * (8 + int.from_bytes(content[:8], "little"))
    places = np.r_[rng.integers(0, header, 5000), rng.integers(header, 8 * len(content), 5000)]
    refused = 0
    for place in places.tolist():
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(rm.FileError):
            parse(bytes(damaged))
        refused += 1
    assert refused == 10_000


def test_every_truncation_and_every_longer_file_is_refused(content):
    for length in range(0, len(content), 7):
        with pytest.raises(rm.FileError):
            parse(content[:length])
    with pytest.raises(rm.FileError, match="cut short: 0 of"):
        parse(content[: 8 + int.from_bytes(content[:8], "little")])
    with pytest.raises(rm.FileError, match="3 bytes too many"):
        parse(content + b"abc")


def test_damage_and_truncation_are_told_apart(content):
    damaged = bytearray(content)
    damaged[-1] ^= 1
    with pytest.raises(rm.FileError, match="damaged: its checksum"):
        parse(bytes(damaged))
    with pytest.raises(rm.FileError, match=r"cut short: \d+ of \d+ bytes of arrays"):
        parse(content[:-1])
    with pytest.raises(rm.FileError, match="its header ends after"):
        parse(content[:500])


def test_a_newer_format_is_named(small):
    words, arrays = parse(content_of(small))
    newer = b"".join(map(bytes, packed({k: v for k, v in words.items() if k != "sha256"} | {"format": "99"}, arrays)))
    with pytest.raises(rm.FileError, match="format '99'; upgrade"):
        from_bytes(newer)


FOREIGN = {
    "empty": (b"", "empty"),
    "one byte": (b"a", "no model file"),
    "shorter than a length": (bytes(7), "nor any safetensors file"),
    "a length of nothing": (bytes(8), "its beginning is damaged"),
    "csv": (b"a,b,label\n1,2,x\n3,4,y\n" * 9, "no model file"),
    "text": ("Ünicode text, not a model".encode(), "no model file"),
    "json": (b'{"a": 1}', "no model file"),
    "zeros": (bytes(4000), "no model file"),
    "numpy": (b"\x93NUMPY\x01\x00v\x00{'descr'", "a NumPy file"),
    "npz": (b"PK\x03\x04" + bytes(60), "zip archive"),
    "gzip": (gzip.compress(b"hello" * 50), "gzip"),
    "parquet": (b"PAR1" + bytes(60), "Parquet"),
    "pickle": (pickle.dumps({"a": np.arange(3)}), "a pickle, which could run code and is never loaded"),
    "safetensors": (
        reference_save({"a": np.arange(3.0)}, {"made": "elsewhere"}),
        "safetensors file that Remanence did",
    ),
    "safetensors, nothing said": (reference_save({"a": np.arange(3.0)}), "safetensors file that Remanence did not"),
    "only the beginning": (BEFORE, "no model file"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_files_of_other_kinds_are_named(kind, tmp_path):
    data, words = FOREIGN[kind]
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(rm.FileError, match=words) as refusal:
        rm.load(tmp_path / "model.safetensors")
    assert "model.safetensors" in str(refusal.value)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(rm.FileError, match=r"absent: there is no such file"):
        rm.load(tmp_path / "absent")
    with pytest.raises(rm.FileError, match="it is a folder"):
        rm.load(tmp_path)


class Bomb:
    def __reduce__(self):
        return Path.touch, (Path(self.target),)


def test_a_pickle_is_refused_and_never_run(tmp_path, monkeypatch):
    bomb = Bomb()
    bomb.target = str(tmp_path / "exploded")
    (tmp_path / "m.safetensors").write_bytes(pickle.dumps(bomb))
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "Unpickler", None)
    with pytest.raises(rm.FileError, match="pickle"):
        rm.load(tmp_path / "m.safetensors")
    assert not (tmp_path / "exploded").exists()


def test_the_package_neither_imports_nor_calls_what_could_run_code_from_a_file():
    banned = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "eval", "exec", "compile", "__import__"}
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = {node.func.id}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names = {node.value.id, node.attr} - ({"compile"} if node.value.id == "re" else set())
            assert not names & banned, (path.name, node.lineno, names & banned)
