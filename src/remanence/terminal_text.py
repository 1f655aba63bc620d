"""User text on a terminal: labels, column names and file names are shown and never interpreted.

A name may contain escape sequences, which a terminal would execute, and square brackets, which rich would take for
markup. `printable` escapes the former; `plain_text` also keeps rich from interpreting the latter.
"""

import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

# Control characters, format characters (which can reverse the direction of text), line and paragraph separators, and
# surrogates.
HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(value: Any) -> str:
    """The value as text on one line, in which every control character is written as an escape, like `\\x1b`."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in HIDDEN else c for c in text)


def plain_text(value: Any, style: str = "") -> "Text":
    """The value for rich: printable, and without markup."""
    from rich.text import Text

    return Text(printable(value), style)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
