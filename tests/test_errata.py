"""The page of misprints: every entry says what is printed, and shows it against what holds (test_documents runs it)."""

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs/errata.md").read_text()


def test_every_entry_states_the_printed_form_and_shows_both_forms():
    entries = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    assert len(entries) == 25
    for entry in entries:
        title = entry.splitlines()[0]
        assert re.search(r"^Printed\b", entry, flags=re.MULTILINE), title
        assert entry.count("```python\n") == entry.count("```text\n") == 1, title
