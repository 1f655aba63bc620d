"""The map of methods: the paper's figure as data, each line carried by a claim, and its picture."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

import remanence as rm
from remanence.certificates import catalogue, draw_map, verify
from remanence.certificates.map_picture import HOLDS, checked_edges
from remanence.certificates.method_map import CORNERS, EDGES, NEEDS_TORCH, NODES, edge_between

SVG = "{http://www.w3.org/2000/svg}"
ON_THE_MAP = [claim.name for claim in catalogue() if claim.edge is not None]


@pytest.fixture(scope="module")
def certificates():
    return verify(0, 2, ON_THE_MAP, progress=False)


def test_it_has_the_fifteen_methods_and_twenty_lines_of_the_figure():
    names = {node.name for node in NODES}
    assert len(NODES) == len(names) == 15 and len({frozenset(edge) for edge in EDGES}) == len(EDGES) == 20
    assert {name for edge in EDGES for name in edge} == names
    assert len({node.place for node in NODES}) == 15
    assert names >= NEEDS_TORCH and set(CORNERS) <= set(EDGES)
    assert edge_between("LMS", "APA") == ("APA", "LMS") and edge_between("LMS", "KF") is None


def test_every_line_that_needs_no_torch_is_checked_by_a_claim():
    checked = {claim.edge for claim in catalogue()}
    assert [edge for edge in EDGES if edge not in checked and not NEEDS_TORCH & set(edge)] == []


def test_the_picture_is_an_svg_that_says_in_words_what_it_shows(certificates, tmp_path):
    path = tmp_path / "map.svg"
    draw_map(certificates, path)
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert root.get("role") == "img" and root.get("aria-labelledby") == "map-title map-text"
    assert root.find(f"{SVG}title").text.startswith("How the methods relate")
    described = root.find(f"{SVG}desc").text
    shown = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for node in NODES:
        assert all(word in shown for word in node.name.split())
    for one, other in EDGES:
        assert f"{one} and {other}: " in described
    for edge, certificate in checked_edges(certificates).items():
        assert f"{certificate.measured:.0e}" in shown, edge
        assert f"{edge[0]} and {edge[1]}: holds, off by {certificate.measured:.0e}" in described
    assert path.stat().st_size < 100_000 and "http://" not in described
    again = tmp_path / "again.svg"
    draw_map(certificates, again)
    assert again.read_bytes() == path.read_bytes()


def test_a_line_that_fails_or_was_not_checked_is_said_and_looks_otherwise(certificates, tmp_path):
    broken = [replace(c, measured=1.0, allowed=0.0) if c.name == "orfit_is_icl" else c for c in certificates]
    left = [c for c in broken if c.name != "apa_of_everything_is_icl"]
    whole, damaged = tmp_path / "whole.svg", tmp_path / "damaged.svg"
    draw_map(certificates, whole)
    draw_map(left, damaged)
    text = damaged.read_text(encoding="utf-8")
    assert "ORFit and ICL: fails, off by 1e+00" in text and "APA and ICL: not checked" in text
    assert text.count(HOLDS) < whole.read_text(encoding="utf-8").count(HOLDS)
    assert "#d55e00" in text and "#d55e00" not in whole.read_text(encoding="utf-8")


def test_of_several_certificates_on_a_line_the_worst_speaks(certificates):
    one = next(c for c in certificates if c.name == "orfit_is_icl")
    worse = replace(one, measured=2 * one.allowed)
    for pair in ([one, worse], [worse, one]):
        assert checked_edges(pair)["ORFit", "ICL"] is worse


def test_a_path_that_cannot_be_written_is_refused(certificates, tmp_path):
    with pytest.raises(rm.FileError):
        draw_map(certificates, tmp_path / "missing" / "map.svg")
