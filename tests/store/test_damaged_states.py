"""Every field of every saved learner, damaged in turn, raises FileError with what was expected, and nothing else.

The files have a correct checksum: only the content can tell that they are damaged.
"""

import copy
import json
import warnings

import numpy as np
import pytest

import remanence as rm
from remanence.store.format.safetensors_file import packed, parse
from remanence.store.model_file import from_bytes
from remanence.store.records.registry import RECORDS

from .every_learner import DEEP, PLAIN, content_of, network

PAIRS = [name for name, make in PLAIN.items() if type(make()) is tuple]


def fields(tree, path=()):
    """The path of every named part of every object in the tree, and of every key of a dictionary."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield from ((*path, "parts", name) for name in tree["parts"] if name not in RECORDS[tree["class"]].optional)
        for key, value in tree.items():
            yield from fields(value, (*path, key))
    elif isinstance(tree, list):
        if path and path[-1] == "dict":
            yield from ((*path, i) for i in range(len(tree)))
        for i, value in enumerate(tree):
            yield from fields(value, (*path, i))


def holder(tree, path):
    for step in path[:-1]:
        tree = tree[step]
    return tree


def is_array(part):
    return isinstance(part, dict) and "array" in part


def damages(tree, arrays, path):
    """Copies of a file's tree and arrays with one field damaged, and what was done to it."""
    part = holder(tree, path)[path[-1]]

    def damaged(change):
        other, more = copy.deepcopy(tree), dict(arrays)
        change(holder(other, path), more)
        used = json.dumps(other)
        return other, {name: array for name, array in more.items() if json.dumps(name) in used}

    if path[-2] == "dict" or path[-1] not in RECORDS[holder(tree, path[:-1])["class"]].defaults:
        yield "dropped", damaged(lambda place, _: place.pop(path[-1]))  # (earlier files lack parts that have a default)
    if path[-2] == "dict":
        return  # a pair of key and value; its value is a field of its own
    yield "of another type", damaged(lambda place, _: place.__setitem__(path[-1], {"tuple": [[]]}))
    if is_array(part):
        name, array = part["array"], arrays[part["array"]]
        for what, new in {
            "of another shape": array[..., None],
            "of complex numbers": array.astype(np.complex64),
            "of integers": array.astype(np.int64),
            "with NaN": np.full_like(array, np.nan) if array.dtype.kind == "f" and array.size else None,
        }.items():
            if (new is not None and new.dtype != array.dtype) or (new is not None and "integers" not in what):
                new = np.ascontiguousarray(new).reshape(new.shape)
                yield what, damaged(lambda _, more, new=new: more.__setitem__(name, new))
    elif type(part) in (int, float):
        yield "NaN", damaged(lambda place, _: place.__setitem__(path[-1], {"float": "nan"}))


def accepted(name, file, outside):
    """The damages of a file that did not raise a FileError that says what was expected."""
    metadata, arrays = parse(file)
    metadata = {key: value for key, value in metadata.items() if key != "sha256"}
    tree, wrong, count = json.loads(metadata["learner"]), [], 0
    for path in fields(tree):
        for what, (other, more) in damages(tree, arrays, path):
            count += 1
            content = b"".join(map(bytes, packed(metadata | {"learner": json.dumps(other)}, more)))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    from_bytes(content, **outside)
                wrong.append(f"{path} {what}: accepted")
            except rm.FileError as error:
                if "expected" not in str(error) or not str(error).count(";"):
                    wrong.append(f"{path} {what}: {error}")
            except Exception as error:
                wrong.append(f"{path} {what}: {type(error).__name__}: {error}")
    assert count > 10
    return "\n".join(wrong)


@pytest.mark.parametrize("name", PAIRS)
def test_a_damaged_field_of_a_method_or_its_state_raises_file_error(name):
    wrong = accepted(name, content_of(PLAIN[name]()), {})
    assert not wrong, wrong


@pytest.mark.parametrize("name", [name for name in DEEP if name != "Growing network"])  # (its state is an extra state)
def test_a_missing_entry_of_a_saved_guard_or_online_learner_raises_an_error_that_says_so(name):
    """In a file a FileError, in load_state_dict an InputError; entries with a default may be missing."""
    pytest.importorskip("torch")
    learner, outside = DEEP[name](), {"model": network()}
    metadata, arrays = parse(content_of(learner))
    metadata = {key: value for key, value in metadata.items() if key != "sha256"}
    tree = json.loads(metadata["learner"])
    entries = tree["parts"]["memory"]["dict"]
    state = learner.state_dict()
    assert len(entries) == len(state) > 2
    for i, (key, _) in enumerate(entries):
        other = copy.deepcopy(tree)
        del other["parts"]["memory"]["dict"][i]
        used = {n: a for n, a in arrays.items() if json.dumps(n) in json.dumps(other)}
        with pytest.raises(rm.FileError, match="expected"):
            from_bytes(b"".join(map(bytes, packed(metadata | {"learner": json.dumps(other)}, used))), **outside)
        with pytest.raises(rm.InputError, match="expected"):
            learner.load_state_dict({k: v for k, v in state.items() if k != key})


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("classifier, lowrank", "offset_", 1e33),
        ("StreamingSVD", "mean_", 1e300),
        ("deep.GradientProjection", "memory.4.1.0.1.4.1.numbers", 1e299),
    ],
)
def test_numbers_whose_squares_overflow_raise_file_error(name, array, value):
    """They would end in LAPACK, in words that do not say what is wrong."""
    if name in DEEP:
        pytest.importorskip("torch")
    metadata, arrays = parse(content_of({**PLAIN, **DEEP}[name]()))
    metadata = {key: word for key, word in metadata.items() if key != "sha256"}
    arrays[array] = np.full_like(arrays[array], value)
    outside = {"model": network()} if name in DEEP else {}
    with pytest.raises(rm.FileError, match="expected"):
        from_bytes(b"".join(map(bytes, packed(metadata, arrays))), **outside)
