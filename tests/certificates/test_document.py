"""docs/claims.md is what the catalogue says."""

import importlib.util
import runpy
from pathlib import Path

import pytest

from remanence.certificates import catalogue
from remanence.certificates.document import claims_page

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"
COMPLETE = importlib.util.find_spec("torch") is not None  # without it the claims about networks are not listed


@pytest.mark.skipif(not COMPLETE, reason="claims about networks need torch")
def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == claims_page(), "run: make claims"


def test_the_page_lists_every_claim_with_its_source_and_kind():
    page = claims_page()
    for claim in catalogue():
        lines = [line for line in page.splitlines() if line.startswith("- **") and f"`{claim.name}`" in line]
        assert len(lines) == 1 and f"; {claim.kind}." in lines[0]


def test_the_command_prints_the_page(capsys):
    runpy.run_module("remanence.certificates", run_name="__main__")
    assert capsys.readouterr().out == claims_page()
