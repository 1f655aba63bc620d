"""Rows from standard input and from addresses, for every command that reads tables."""

import io
import json
import sys

import pytest

from remanence.cli import main

ROWS = "a,b,label\n" + "".join(f"{i},{i * i % 7},{'xy'[i % 2]}\n" for i in range(40))


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert not ended.value.code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def source(request, monkeypatch):
    if request.param == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROWS.encode())))
        return ["-", "--format", "csv"], lambda: sys.stdin.buffer.seek(0)
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://folder/rows.csv", "wb") as file:
        file.write(ROWS.encode())
    return ["memory://folder/rows.csv"], lambda: None


@pytest.mark.parametrize("source", ["-", "memory"], indirect=True)
def test_learn_evaluate_predict_and_unlearn(tmp_path, monkeypatch, capsys, source):
    monkeypatch.chdir(tmp_path)
    data, rewind = source
    assert said(capsys, "learn", "m", *data, "--label", "label")["learned"] == 40
    rewind()
    assert said(capsys, "evaluate", "m", *data)["rows"] == 40
    rewind()
    assert said(capsys, "predict", "m", *data, "-o", "out.csv")["predicted"] == 40
    rewind()
    assert said(capsys, "unlearn", "m", *data, "--where", "b=4")["unlearned"] == ROWS.count(",4,")
    rewind()
    assert said(capsys, "unlearn", "m", *data)["unlearned"] == 40 - ROWS.count(",4,")
    assert said(capsys, "inspect", "m")["rows"] == 0
