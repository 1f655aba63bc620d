"""No name of a user's gets a terminal or rich to do anything but show it."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from remanence.terminal_text import plain_text, printable

HOSTILE = {
    "\x1b[31mred\x1b[0m": r"\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "a\nb\rc\td": r"a\nb\rc\td",
    "\x9b2J": r"\x9b2J",
    "abc\u202egpj": r"abc\u202egpj",
    "\ud800": r"\ud800",
    "\u2028": r"\u2028",
    "[/b]": "[/b]",
    "[red]x": "[red]x",
    "größe ✓ 中 \U0001f600": "größe ✓ 中 \U0001f600",
    "": "",
}


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_control_characters_are_visible_and_the_rest_is_as_it_was(text):
    assert printable(text) == HOSTILE[text]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_rich_shows_the_same_characters(text):
    table = Table("name")
    table.add_row(plain_text(text))
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=True, color_system=None).print(table)
    assert HOSTILE[text] in out.getvalue()


def test_what_is_no_text_is_shown_as_text():
    assert printable(3.0) == "3.0" and printable(None) == "None"
