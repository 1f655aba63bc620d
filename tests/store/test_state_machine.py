"""Random days of a model file against a plain list of rows: learn, unlearn, trust, again, merge, and files that change,
grow, and are converted or compressed.

The list knows nothing of marks, places or fingerprints: it has one tally of rows for every piece that was learned, and
one of the rows that went out on trust. A file is cut into the known pieces it starts with, and one of the other rows.
After every step the model must be the one trained on the rows of the list, its counts and its ledger must say so, the
report must say what happened, and what `inspect` certifies must be true.
"""

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import remanence as rm
from remanence.store import read
from remanence.store.jobs.inspect import inspect_file
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.merge import merge_files
from remanence.store.model_file import from_bytes

from .job_helpers import learn_tables, unlearn_tables

POOL = 14  # rows that files are made of, so that they repeat
RNG = np.random.default_rng(7)
X = RNG.standard_normal((POOL, 2)).round(3)
Y = np.array(["p", "q", "r"])[np.arange(POOL) % 3]
GROUP = 3  # rows of a row group
ENDINGS = ("csv", "csv.gz", "parquet", "jsonl", "feather")


def contains(rows, piece):
    """Whether a piece stands in a file, in one go."""
    return any(rows[i : i + len(piece)] == piece for i in range(len(rows) - len(piece) + 1))


def cut(rows, known):
    """The pieces of a file: known ones at its beginning and behind one another, the longest first, then all others."""
    while rows:
        length = max((len(piece) for piece in known if rows[: len(piece)] == piece), default=len(rows))
        yield rows[:length]
        rows = rows[length:]


@dataclass(frozen=True)
class Content:
    """What a file holds: rows of the pool, and its format."""

    rows: tuple[int, ...]
    ending: str = "csv"

    def write(self, path):
        if self.ending.startswith("csv"):
            lines = [f"{float(X[i, 0])!r},{float(X[i, 1])!r},{Y[i]}\n" for i in self.rows]
            text = ("a,b,kind\n" + "".join(lines)).encode()
            path.write_bytes(gzip.compress(text) if self.ending.endswith("gz") else text)
        elif self.ending == "jsonl":
            path.write_text(
                "".join(json.dumps({"a": X[i, 0], "kind": str(Y[i]), "b": X[i, 1]}) + "\n" for i in self.rows)
            )
        elif self.ending == "feather":
            from pyarrow import feather, table

            rows = list(self.rows)
            feather.write_feather(table({"kind": Y[rows], "a": X[rows, 0], "b": X[rows, 1]}), path)
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            rows = list(self.rows)
            pq.write_table(pa.table({"a": X[rows, 0], "b": X[rows, 1], "kind": Y[rows]}), path, row_group_size=GROUP)


@dataclass
class Learned:
    """A piece that was learned: its content, its name, and which of its rows are in."""

    content: tuple
    name: str
    rows: Counter
    when: int


@dataclass
class Trusted:
    """Rows that went out without having been found, the content that asked for them, and the pieces they may be in."""

    rows: Counter
    content: tuple
    older: list


@dataclass
class Plain:
    """The plain list of rows of one model."""

    learned: list = field(default_factory=list)
    trusted: list = field(default_factory=list)
    went_out: dict = field(default_factory=dict)  # row: when it was asked to go for the last time
    known: set = field(default_factory=set)  # contents that the ledger has or had

    def rows(self):
        total = Counter()
        for piece in self.learned:
            total.update(piece.rows)
        for loose in self.trusted:
            total.subtract(loose.rows)
        assert min(total.values(), default=0) >= 0
        return +total

    def find(self, content):
        return [piece for piece in self.learned if piece.content == content]


class Day:
    """One random sequence in a folder of its own."""

    def __init__(self, folder, seed, undo):
        self.home, self.away = folder / "home", folder / "away"
        self.home.mkdir(parents=True), self.away.mkdir()
        self.rng = np.random.default_rng(seed)
        self.kind = LearnOptions("kind", settings={"ridge": 0.1}, **({"undo": "pieces"} if undo else {}))
        self.undo, self.disk, self.hidden, self.count = undo, {}, {}, 0
        self.models = {"m": Plain(), "n": Plain()}
        self.log, self.now = [], 0

    def any(self, choices):
        choices = sorted(choices) if isinstance(choices, (dict, set)) else list(choices)
        return choices[self.rng.integers(len(choices))]

    def draw(self):
        """Rows for a file: few, often repeated, sometimes a part of a file that is there."""
        if self.disk and self.rng.random() < 0.6:
            rows = list(self.disk[self.any(self.disk)].rows)
            rows = [row for row in rows if self.rng.random() < 0.6] or rows[:1]
            if self.rng.random() < 0.3:
                rows.append(int(self.rng.integers(POOL)))
        else:
            rows = self.rng.integers(POOL, size=self.rng.integers(1, 8)).tolist()
        if self.rng.random() < 0.15:
            rows = (rows[:GROUP] * 3)[: 2 * GROUP]
        return Content(tuple(rows), "csv" if self.rng.random() < 0.6 else self.any(ENDINGS))

    # Steps

    def step(self):
        steps = (
            [self.new_file] * 3 + [self.learn] * 8 + [self.unlearn] * 6 + [self.vouch] * 3 + [self.come_back] * 2
            + [self.hide, self.restore, self.merge, self.grow, self.convert] * 2 + [self.rename, self.replace]
        )  # fmt: skip
        self.now += 1
        self.any(steps)()
        for name in self.models:
            self.check(name)

    def put(self, name, content):
        content.write(self.home / name)
        self.disk[name] = content

    def new_file(self):
        content = self.draw()
        self.count += 1
        self.put(f"f{self.count}.{content.ending}", content)
        self.log.append(("new", f"f{self.count}", content))

    def grow(self):
        if self.disk:
            name, more = self.any(self.disk), self.rng.integers(POOL, size=self.rng.integers(1, 4)).tolist()
            self.put(name, Content((*self.disk[name].rows, *more), self.disk[name].ending))
            self.log.append(("grow", name, more))

    def convert(self):
        if self.disk:
            old, ending = self.any(self.disk), self.any(ENDINGS)
            self.count += 1
            self.put(f"v{self.count}.{ending}", Content(self.disk[old].rows, ending))
            self.log.append(("convert", old, f"v{self.count}.{ending}"))

    def rename(self):
        if self.disk:
            old = self.any(self.disk)
            self.count += 1
            new = f"r{self.count}.{self.disk[old].ending}"
            (self.home / old).rename(self.home / new)
            self.disk[new] = self.disk.pop(old)
            self.log.append(("rename", old, new))

    def replace(self):
        if self.disk:
            name, content = self.any(self.disk), self.draw()
            if self.disk[name].ending == content.ending:
                self.put(name, content)
                self.log.append(("replace", name, content))

    def hide(self, name=None):
        if self.disk:
            name = name or self.any(self.disk)
            (self.home / name).replace(self.away / name)
            self.hidden[name] = self.disk.pop(name)
            self.log.append(("hide", name))

    def restore(self, name=None):
        if self.hidden:
            name = name or self.any(self.hidden)
            (self.away / name).replace(self.home / name)
            self.disk[name] = self.hidden.pop(name)
            self.log.append(("restore", name))

    def model(self):
        return "m" if self.rng.random() < 0.75 else "n"

    def learn(self, name=None):
        if not self.disk:
            return
        model, again = self.model(), bool(self.rng.random() < 0.2)
        both = [p.content for p in self.models["m"].learned]
        fresh = [n for n in self.disk if not any(contains(self.disk[n].rows, p) for p in both)]  # to be merged one day
        name = name or self.any(fresh if model == "n" and fresh else self.disk)
        self.log.append(("learn", model, name, again))
        plain, content, path = self.models[model], self.disk[name], self.home / model
        report, met = learn_tables(path, [self.home / name], self.kind, again=again), Counter()
        learned = skipped = 0
        for piece in list(cut(content.rows, plain.known)):
            if len(plain.find(piece)) > met[piece] and not again:
                skipped += len(piece)
            else:
                plain.learned.append(Learned(piece, name, Counter(piece), self.now))
                plain.known.add(piece)
                learned += len(piece)
            met[piece] += 1
        assert (report.total("learned"), report.total("skipped")) == (learned, skipped)

    def asked(self, plain):
        """The name of a file to unlearn: one that asked before, one that is there, or one of rows that are in."""
        before = [name for name in self.disk if name.startswith("c")]
        if before and self.rng.random() < 0.4:
            return self.any(before)
        rows = sorted(plain.rows())
        if not rows or self.rng.random() < 0.3:
            return self.any(self.disk)
        chosen = self.rng.choice(rows, size=min(len(rows), self.rng.integers(1, 4)), replace=False).tolist()
        self.count += 1
        name = f"c{self.count}.csv"
        self.put(name, Content(tuple(chosen + chosen[:1] * int(self.rng.random() < 0.2))))
        self.log.append(("ask for", name, chosen))
        return name

    def come_back(self):
        """Rows that went out come back in a file with others."""
        before = [name for name in self.disk if name.startswith("c")]
        if before:
            rows = [row for row in self.disk[self.any(before)].rows if self.rng.random() < 0.7]
            rows += self.rng.integers(POOL, size=self.rng.integers(1, 3)).tolist()
            self.count += 1
            self.put(f"b{self.count}.csv", Content(tuple(rows)))
            self.log.append(("come back", f"b{self.count}", rows))
            self.learn(f"b{self.count}.csv")

    def unlearn(self, trust=False, name=None, model=None):
        model = model or self.model()
        if not self.disk or not (self.home / model).exists():
            return
        plain = self.models[model]
        name = name or self.asked(plain)
        sources = [self.any(self.hidden)] if self.hidden and self.rng.random() < 0.3 else []
        self.log.append(("unlearn", model, name, "trust" if trust else "", sources))
        asked, path = self.disk[name], self.home / model
        known = {e.name for e in read(path).ledger}  # files of these names are at hand
        files = [asked, *(self.hidden[n] for n in sources), *(self.disk[n] for n in self.disk if n in known)]
        contents = {piece for piece in plain.known if any(contains(file.rows, piece) for file in files)}
        before = path.read_bytes()
        if trust and not self.can_be_trusted(plain, asked):
            return
        try:
            report = unlearn_tables(path, [self.home / name], [self.away / n for n in sources], trust=trust)
        except rm.InputError as refusal:
            assert path.read_bytes() == before
            self.check_refusal(refusal, plain, asked, contents)
            return
        searched = [p for p in plain.learned if p.content in contents]
        missed = [p for p in plain.learned if p.content not in contents]
        away = Counter()
        for piece in missed:
            away[piece.name] += piece.rows.total()
        assert report.unsearched == away  # what is not named was looked into
        self.settle(plain, searched, contents)
        wanted, found, removed, elsewhere = Counter(asked.rows), set(), 0, 0
        for piece in searched:
            for row in wanted.keys() & (+piece.rows).keys():
                elsewhere += 0 if contains(asked.rows, piece.content) else piece.rows[row]
                removed += piece.rows.pop(row)
                found.add(row)
        plain.learned = [p for p in plain.learned if not contains(asked.rows, p.content)]
        lost = [row for row in asked.rows if row not in found]
        trusted = Counter()
        for rows in self.noted_as_loose(path, before, asked) if trust else ():
            plain.trusted.append(Trusted(rows, asked.rows, list(plain.learned)))
            trusted += rows
        if elsewhere or trusted:
            plain.known.add(asked.rows)
        assert not trusted - Counter(lost)
        out_already = Counter(lost) - trusted
        assert report.total("unlearned") == removed + trusted.total()
        assert report.total("skipped") == out_already.total()
        left = plain.rows()
        for row in asked.rows:  # whatever is left of it is in pieces that were named
            assert left[row] == 0 or any(p.rows[row] for p in missed)
        for row in out_already:  # and rows that may have come back since they went are not called out
            assert all(p.when <= plain.went_out[row] for p in missed if p.rows[row])
        plain.went_out |= dict.fromkeys(asked.rows, self.now)

    def vouch(self):
        """Rows of a file that is put away go out on trust; then it may come back, or the file that asked may go."""
        model = self.model()
        plain = self.models[model]
        names = [n for n in self.disk if any(p.name == n for p in plain.learned)]
        if names and not self.undo:
            name = self.any(names)
            rows = self.disk[name].rows
            self.hide(name)
            self.count += 1
            asking = f"c{self.count}.csv"
            self.put(asking, Content(tuple(dict.fromkeys(rows))[: self.rng.integers(1, 4)]))
            self.unlearn(trust=True, name=asking, model=model)
            if self.rng.random() < 0.6:
                self.restore(name)
            if self.rng.random() < 0.4:
                self.hide(asking)
            if self.rng.random() < 0.5:
                self.unlearn(name=name if name in self.disk else None, model=model)

    def can_be_trusted(self, plain, asked):
        """Whether somebody who knows may vouch for these rows: they are in, as often as they are asked for."""
        visible = {row for p in plain.learned if self.is_here(p.content) for row in +p.rows}
        total, wanted = plain.rows(), Counter(asked.rows)
        known = self.can_settle(plain)
        return known and all(total[row] >= times or (row in visible and total[row]) for row, times in wanted.items())

    def is_here(self, piece):
        return any(contains(self.disk[n].rows, piece) for n in self.disk)

    def can_settle(self, plain):
        return all(self.is_here(loose.content) for loose in plain.trusted)

    def settle(self, plain, searched, contents):
        """Rows out on trust are those of the oldest piece at hand that has them, where the asking file is there too."""
        for loose in plain.trusted:
            if loose.content not in contents:
                continue
            for piece in [p for p in loose.older if p in searched]:
                both = piece.rows & loose.rows
                piece.rows.subtract(both)
                loose.rows.subtract(both)
                piece.rows, loose.rows = +piece.rows, +loose.rows
        plain.trusted = [loose for loose in plain.trusted if loose.rows]

    def noted_as_loose(self, path, before, asked):
        """Rows of the asked file that the model file has as out on trust now and had not before."""
        old, now = from_bytes(before).notes.get("loose", {}), read(path)
        for mark, places in now.notes.get("loose", {}).items():
            if mark not in old:
                yield Counter(asked.rows[place] for place in places)

    def check_refusal(self, refusal, plain, asked, contents):
        """Rows that are all at hand are never refused, unless some went out on trust."""
        visible = {row for p in plain.learned if p.content in contents for row in +p.rows}
        assert plain.trusted or not set(asked.rows) <= visible, refusal

    def merge(self):
        if not all((self.home / name).exists() for name in self.models):
            return
        ours, theirs = self.models["m"], self.models["n"]
        self.log.append(("merge",))
        before = (self.home / "m").read_bytes()
        if {p.content for p in ours.learned} & {p.content for p in theirs.learned}:
            with pytest.raises(rm.InputError, match="both have learned"):
                merge_files([self.home / "m", self.home / "n"], self.home / "m")
            assert (self.home / "m").read_bytes() == before
            return
        merge_files([self.home / "m", self.home / "n"], self.home / "m")
        ours.learned += [replace(piece, when=self.now) for piece in theirs.learned]
        ours.went_out |= dict.fromkeys(theirs.went_out, self.now)
        ours.trusted += theirs.trusted
        ours.known |= {p.content for p in theirs.learned} | {loose.content for loose in theirs.trusted}
        for loose in ours.trusted[len(ours.trusted) - len(theirs.trusted) :]:
            loose.older = list(ours.learned)
        (self.home / "n").unlink()
        self.models["n"] = Plain()

    # The model is the one of the list

    def check(self, name):
        path, plain = self.home / name, self.models[name]
        if not path.exists():
            assert not plain.learned
            return
        model, rows = read(path), sorted(plain.rows().elements())
        assert model.ledger.rows() == len(rows)
        held = sorted((p.name, len(p.content)) for p in plain.learned)
        assert sorted((e.name, e.span) for e in model.ledger.in_force().values()) == held
        learner = model.learner
        if rows:
            fresh = rm.ContinualClassifier(rm.RLS(ridge=0.1)).fit(X[rows], Y[rows])
            assert learner.n_seen_ == len(rows) and learner.classes_.tolist() == fresh.classes_.tolist()
            assert learner.class_count_.tolist() == fresh.class_count_.tolist()
            np.testing.assert_allclose(learner.class_scores(X), fresh.class_scores(X), atol=1e-9)
        else:
            assert not hasattr(learner, "state_")
        certificates = {c.name: c for c in inspect_file(path).certificates}
        if "ledger" in certificates:
            assert certificates["ledger"].status == ("does not apply" if plain.trusted else "holds")
        assert not any(c.status == "fails" for c in certificates.values())


def live(folder, seed, undo=False, steps=30):
    day = Day(Path(folder) / f"{seed}", seed, undo)
    try:
        for _ in range(steps):
            day.step()
    except BaseException:
        print(f"seed {seed}:", *day.log, sep="\n  ")
        raise


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A current folder without data."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_days_of_a_model_file(nowhere, start):
    pytest.importorskip("pyarrow")
    for seed in range(start, start + 20):
        live(nowhere, seed)


def test_days_of_a_model_file_that_keeps_its_pieces(nowhere):
    pytest.importorskip("pyarrow")
    for seed in range(100, 120):
        live(nowhere, seed, undo=True)


@pytest.mark.sweep
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_days_of_a_model_file(nowhere, start):
    pytest.importorskip("pyarrow")
    for seed in range(start, start + 100):
        live(nowhere, seed, undo=seed % 4 == 3)
