"""Model files changed by someone who works out the checksum anew: what is in them is then all that can be judged.

python -m forging 50000 0        counts of a sweep, within a memory limit (see test_forged_files.py)
"""

import copy
import hashlib
import json
import resource
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import remanence as rm
from remanence.store.format.safetensors_file import PLACE, packed, parse
from remanence.store.model_file import from_bytes
from remanence.store.records.registry import RECORDS

sys.path.insert(0, str(Path(__file__).parent))  # it is also run as a script
from every_learner import DEEP, PLAIN, content_of, network, use

WORDED = (rm.InputError, rm.FileError, rm.NumericalError, rm.MissingDependency)
SPARE = 768 << 20  # bytes a forged file may take beyond what the process has, a thousand times what any of them holds


ODD = [
    *[None, True, False, -1, 0, 1, 3, 10**9, 10**30, 0.5, -0.5, 1e308, 5e-324],
    *["", "auto", "RLS", "float32", "\x1b[31m", "\ud800", [], [1], [None], {}],
    *[{"same": 0}, {"same": 1}, {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}],
    *[{"tuple": [1]}, {"tuple": [1.0, 2.0]}, {"names": ["a"]}],
    *[{"dict": [[[], 1]]}, {"dict": []}, {"dict": [["a", 1.0]]}],
    *[{"scalar": ["<f8", "000000000000f03f"]}, {"scalar": ["<f8", "000000000000f87f"]}],
    *[{"scalar": ["<i8", "0100000000000000"]}, {"scalar": ["<M8[D]", "0100000000000000"]}],
    *[{"scalar": ["|b1", "07"]}, {"scalar": ["<U1", "ffffffff"]}, {"dtype": "<f4"}],
    *[{"external": ["features", "x"]}, {"external": ["model", "x"]}, {"external": ["mood", "x"]}],
    {"class": "RLS", "parts": {"ridge": 1.0, "forget": 1.0, "floor": 0.0}},
    {"class": "LMS", "parts": {"step": 1.0, "normalized": True}},
    {"class": "RandomFeatures", "parts": {"width": 3, "seed": 0, "activation": "relu", "scale": 1.0}},
    {"class": "Alternating", "parts": {"c": 0.5}},
    {"class": "Known", "parts": {"posterior": None, "weights": None, "ridge": None}},
]
NAMES = ["more", "axes", "shape", "dtype", "class", "same", "n_seen_", "classes_"]
TEXTS = ["", "1", "2", "0", "null", "[" * 2000, "\x1b[2J", "{", '"x"', "7", "[]", "-1", "9" * 5000]
HEADERS = ["F64", "F32", "BOOL", "U8", [0, 8], [10**12, 2], [0, 10**12], [1, 1, 1]]
KINDS = ["<f8", "<f4", "<f2", "<i8", "<i4", "|i1", "|u1", "<u8", "|b1", "<c8", "<U1", "<U2", ">f8", "<M8[D]", "|S4"]


def nodes(tree, path=()):
    """Every place in the tree, as (container, key)."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inner):
        yield tree, key
        yield from nodes(value)


def pick(rng, options):
    return options[int(rng.integers(len(options)))]


def number(rng, value):
    whole = int(value) if abs(value) < 1e18 else 7
    others = [value + 1, value - 1, -value, value * 1000, value * 10**12, 0, value + 0.5, float(value)]
    return pick(rng, [*others, str(value), whole])


def change_tree(rng, tree, arrays):
    """One edit of the words: a value, a name, a shape, a nesting, a part too many or too few."""
    places = list(nodes(tree))
    container, key = pick(rng, places)
    value = container[key]
    how = int(rng.integers(10))
    if how < 3:
        container[key] = copy.deepcopy(pick(rng, ODD))
    elif how == 3:
        if isinstance(container, dict):
            del container[key]
        else:
            container.pop(key)
    elif how == 4:
        others = [k for c, k in places if c is container]
        if isinstance(container, dict):
            container[pick(rng, NAMES)] = copy.deepcopy(pick(rng, ODD))
        else:
            container.insert(pick(rng, others), copy.deepcopy(value))
    elif how == 5:
        there, other = pick(rng, places)
        container[key], there[other] = copy.deepcopy(there[other]), copy.deepcopy(value)
    elif how == 6:
        container[key] = pick(rng, [[value], {"tuple": [value]}, {"dict": [["a", value]]}, {"numbers": value}])
    elif how == 7:
        names = [(c, k) for c, k in places if k == "array"]
        if names:
            there, _ = pick(rng, names)
            if rng.random() < 0.5:
                there["array"] = pick(rng, list(arrays))
            else:
                shape = [int(rng.choice([0, 1, 2, 3, 1000, 10**5, 10**12, -1])) for _ in range(int(rng.integers(4)))]
                there[pick(rng, ["shape", "axes"])] = shape
                if rng.random() < 0.3:
                    there["dtype"] = pick(rng, KINDS)
    elif how == 8:
        classes = [(c, k) for c, k in places if k == "class"]
        if classes:
            there, _ = pick(rng, classes)
            there["class"] = pick(rng, list(RECORDS))
    elif isinstance(value, (int, float)):
        container[key] = number(rng, value)
    elif isinstance(value, str):
        container[key] = pick(rng, [value + "x", value[:-1], value.upper(), "\ud800", "1" * 5000, "\0"])


def reshaped(array):
    found = [array.T, array[None], array.reshape(-1), np.zeros((0, 10**13))]
    return [*found, array[:-1], array[..., :0], np.concatenate([array, array])] if array.ndim else found


def change_arrays(rng, arrays):
    """One edit of an array: values, kind of element, shape, or that it is there."""
    if not arrays:
        return
    name = pick(rng, list(arrays))
    array = np.array(arrays[name])
    how = int(rng.integers(8))
    if how < 3 and array.size:
        flat = array.reshape(-1)
        odd = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0, -1, 5e-324, 2**31, 255, 1e18]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = pick(rng, odd)
            if array.dtype.kind in "iub" and not np.isfinite(value):
                value = -1
            where = slice(None) if rng.random() < 0.3 else int(rng.integers(array.size))
            flat[where] = np.array(value).astype(array.dtype)
    elif how == 3:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = array.astype(pick(rng, ["<f8", "<f4", "<f2", "<i8", "<i4", "|u1", "|b1", "<c8", "<u8"]))
    elif how == 4:
        array = pick(rng, reshaped(array))
    elif how == 5:
        arrays[pick(rng, ["more", name + "x"])] = arrays.pop(name)
        return
    elif how == 6:
        array = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
    else:
        arrays[name] = array * 0
        return
    arrays[name] = array


NOTES = {"columns": ["a", "b"], "label": "y", "targets": [], "ignored": [], "label kind": "text", "out": {"x": [1]}}


def change_words(rng, words):
    """One edit of what stands beside the learner."""
    word = pick(rng, ["about", "ledger", "notes", "notes", "library", "format"])
    if word in ("library", "format") or rng.random() < 0.1:
        words[word] = pick(rng, TEXTS)
        return
    try:
        tree = {"": json.loads(words[word])}
    except (ValueError, RecursionError):  # changed to one of TEXTS before
        return
    if word == "notes" and not tree[""]:
        tree[""] = copy.deepcopy(NOTES)
    change_tree(rng, tree, {"x": 0})
    words[word] = json.dumps(tree.get("", {}))


def change_header(rng, content):
    """One edit of the header itself; the checksum is made anew."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    entries = [name for name in header if name != "__metadata__"]
    if not entries:
        return content
    entry = header[pick(rng, entries)]
    word = pick(rng, list(entry))
    entry[word] = copy.deepcopy(pick(rng, [*ODD, *HEADERS]))
    return sealed(json.dumps(header, separators=(",", ":")).encode("ascii"), content[8 + size :])


def sealed(header, rest):
    """A file of this header and these bytes, under a right checksum."""
    header += b" " * (-len(header) % 8)
    content = bytearray(len(header).to_bytes(8, "little") + header + rest)
    content[PLACE] = b"0" * 64
    content[PLACE] = hashlib.sha256(content).hexdigest().encode("ascii")
    return bytes(content)


def forged(rng, content):
    """The file after one, two or three edits."""
    words, arrays = parse(content)
    words = {name: word for name, word in sorted(words.items()) if name != "sha256"}
    arrays = dict(sorted(arrays.items()))  # (safetensors hands them out in another order every time)
    for _ in range(int(rng.integers(1, 4))):
        how = rng.random()
        if how < 0.6:
            tree = {"": json.loads(words["learner"])}
            change_tree(rng, tree, arrays)
            words["learner"] = json.dumps(tree.get(""))
        elif how < 0.9:
            change_arrays(rng, arrays)
        elif how < 0.95:
            change_words(rng, words)
    if rng.random() < 0.7:  # an array too many is a change of its own
        arrays = {name: array for name, array in arrays.items() if json.dumps(name) in words["learner"]}
    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    content = b"".join(map(bytes, packed(words, arrays)))
    return change_header(rng, content) if rng.random() < 0.05 else content


def outcome(content, outside):
    """What becomes of a forged file: refused, used, or refused later in words; anything else is raised."""
    try:
        learner = from_bytes(content, **outside).learner
    except (rm.FileError, rm.InputError):
        return "refused"
    try:
        use(learner)
    except WORDED as refusal:
        return f"later: {type(refusal).__name__}"
    return "used"


def sweep(kinds, changes, seed, limit=None):
    """Counts of outcomes, and the failures with their traceback."""
    counts, failures = Counter(), []
    originals = {name: content_of(make()) for name, make in kinds.items()}
    for name, content in originals.items():
        outside = {"model": network()} if name.startswith("deep.") else {}
        use(from_bytes(content, **outside).learner)
    if limit is not None:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + limit, resource.RLIM_INFINITY))
    for i in range(changes):
        if i % 1000 == 0:
            print(i, file=sys.stderr, flush=True)
        name = list(originals)[i % len(originals)]
        rng = np.random.default_rng((seed, i))
        content = forged(rng, originals[name])
        outside = {"model": network()} if name.startswith("deep.") else {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                counts[outcome(content, outside)] += 1
        except BaseException as problem:
            counts["failed"] += 1
            counts[f"failed: {type(problem).__name__}"] += 1
            failures.append({"kind": name, "seed": [seed, i], "trace": traceback.format_exc()})
            if isinstance(problem, KeyboardInterrupt):
                raise
    return counts, failures


if __name__ == "__main__":
    changes, seed, *which = sys.argv[1:]
    kinds = {**PLAIN, **DEEP}
    if which:
        kinds = {name: make for name, make in kinds.items() if name.startswith(which[0])}
    counts, failures = sweep(kinds, int(changes), int(seed), SPARE)
    print(json.dumps({"counts": dict(counts), "failures": failures[:400]}))
