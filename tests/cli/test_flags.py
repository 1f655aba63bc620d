"""Options of the command line are named in cli/ only; errors of the library name arguments, which cli/ translates."""

import ast
import re
from pathlib import Path

import remanence as rm
from remanence.cli.common.flags import FLAGS, message

SOURCE = Path(rm.__file__).parent
FLAG = re.compile(r"(?<!var\()--[a-z]")
GENERATED = "certificates/document.py"  # a page of documentation that shows commands


def literals(path):
    return (
        n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    )


def test_no_text_outside_cli_names_an_option():
    files = [p for p in SOURCE.rglob("*.py") if p.relative_to(SOURCE).parts[0] != "cli"]
    found = {
        f"{path.relative_to(SOURCE)}:{node.lineno}": node.value
        for path in files
        if str(path.relative_to(SOURCE)) != GENERATED
        for node in literals(path)
        if FLAG.search(node.value)
    }
    assert not found and len(files) > 100
    assert FLAG.search("leave it out with --ignore x") and not FLAG.search("var(--card)")


def test_every_argument_that_an_error_names_has_an_option():
    named = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "arguments" and isinstance(node.value, ast.Tuple):
                named |= {e.value for e in node.value.elts if isinstance(e, ast.Constant)}
    assert named and named <= FLAGS.keys()


def test_the_options_follow_the_message():
    assert message(rm.InputError("expected a, got b", arguments=("ignored",))) == (
        "expected a, got b (option --ignore NAME)"
    )
    assert message(rm.FileError("x", arguments=("sources", "trust"))) == "x (options --from FILE, --trust)"
    assert message(rm.InputError("x")) == "x" == message(ValueError("x"))
