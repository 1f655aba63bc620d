"""Every public class and function documents its parameters and has an example that runs."""

import doctest
import importlib
import inspect
import re

import pytest

import remanence as rm

pytest.importorskip("torch")
pytest.importorskip("dask")
MODULES = ["kalman", "deep", "scale", "streams", "metrics", "steps"]
METRICS = ["average", "backward_transfer", "forgetting", "forward_transfer", "regret"]


def public():
    """(name, object) of all classes and functions that users import."""
    things = {f"rm.{name}": getattr(rm, name) for name in rm.__all__}
    for module in MODULES:
        home = getattr(rm, module)
        things |= {f"rm.{module}.{name}": getattr(home, name) for name in getattr(home, "__all__", METRICS)}
    seen = {}
    for name, thing in things.items():
        if inspect.isclass(thing) or inspect.isfunction(thing):
            seen.setdefault(id(thing), (name, thing))
    return list(seen.values())


def section(doc, title):
    """The text of one section of a numpy-style docstring."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}\n|\Z)", doc, flags=re.M | re.S)
    return found[1] if found else ""


def undocumented(thing):
    """The arguments of the signature that the section Parameters does not name."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return []
    names = [
        p.name
        for p in inspect.signature(thing).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in ("self", "cls")
    ]
    heads = re.findall(r"^(\w[\w, *]*?)(?: :|$)", section(inspect.getdoc(thing) or "", "Parameters"), flags=re.M)
    documented = {name.strip(" *") for head in heads for name in head.split(",")}
    return [name for name in names if name not in documented]


@pytest.mark.parametrize(("name", "thing"), public(), ids=[name for name, _ in public()])
def test_parameters_are_documented_and_the_example_prints_what_it_says(name, thing, tmp_path, monkeypatch):
    import torch

    assert not undocumented(thing)
    doc = inspect.getdoc(thing) or ""
    assert ">>>" in section(doc, "Examples"), f"{name} has no section Examples"
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    home = importlib.import_module(thing.__module__)
    example = doctest.DocTestParser().get_doctest(doc, {}, name, home.__file__, 0)
    out = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=out.append)
    assert not result.failed, "".join(out)


def test_missing_parameters_and_sections_are_found():
    def documented(a, b, *rest):
        """One.

        Parameters
        ----------
        a, b : int
            Two.

        Examples
        --------
        >>> 1
        1
        """

    def partly(a, b):
        """One.

        Parameters
        ----------
        a : int
            As b : is.
        """

    assert undocumented(documented) == [] and undocumented(partly) == ["b"]
    assert ">>>" in section(inspect.getdoc(documented), "Examples")
    assert not section(inspect.getdoc(partly), "Examples")
