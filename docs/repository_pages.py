"""Pages of the site that live elsewhere in the repository: one text in one place, shown in two.

A page is copied as it stands; only links change, from where a file lies in the repository to where it lies in the site.
Decisions and cards are listed as they are found, so that a new one needs no word here.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # where it lies in the repository → where it lies in the site
    "benchmarks/results/README.md": "benchmarks.md",
    "experiments/README.md": "experiments.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
CARDS = {f"experiments/cards/{card.name}": f"cards/{card.name}" for card in (ROOT / "experiments/cards").glob("*.md")}
WIDE = ("benchmarks/", "experiments/cards/")  # tables that need the room of the table of contents
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:]+)((?:#[^)]*)?)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Decisions and cards join the navigation, each under the heading of its own page."""
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    cards = sorted(ROOT / source for source in CARDS)
    _part(config, "Evidence").extend({_heading(card): f"cards/{card.name}"} for card in cards)
    _part(config, "Project").append({"Decisions": [{_heading(page): f"decisions/{page.name}"} for page in decisions]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages from elsewhere join those of docs, and so do the pictures beside the cards."""
    for source, place in {**PAGES, **CARDS}.items():
        text = _links_of_the_site((ROOT / source).read_text(encoding="utf-8"), source, place)
        if source == "experiments/README.md":
            text += (
                "\n\n## Cards\n\n" + "\n".join(f"- [{_heading(ROOT / s)}]({CARDS[s]})" for s in sorted(CARDS)) + "\n"
            )
        if source.startswith(WIDE):
            text = "---\nhide: [toc]\n---\n\n" + text
        files.append(File.generated(config, place, content=text))
    for picture in (ROOT / "experiments/cards").glob("*.svg"):
        files.append(File.generated(config, f"cards/{picture.name}", abs_src_path=str(picture)))
    return files


def _part(config: MkDocsConfig, title: str) -> list[Any]:
    return next(part[title] for part in config.nav if title in part)


def _heading(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def _links_of_the_site(text: str, source: str, place: str) -> str:
    """Links of a page that has moved: to where their targets are in the site; bare words where that has none."""
    up = "../" * place.count("/")

    def moved(link: re.Match[str]) -> str:
        picture, words, target, anchor = link.groups()
        path = (ROOT / source).parent.joinpath(target).resolve().relative_to(ROOT).as_posix()
        if path.startswith("docs/") and (ROOT / path).is_file():
            there = path.removeprefix("docs/")
        elif path.startswith("experiments/cards/") and path.endswith(".svg"):
            there = path.removeprefix("experiments/")
        else:
            there = {**PAGES, **CARDS}.get(path, "")
        return f"{picture}[{words}]({up}{there}{anchor})" if there else words

    return LINK.sub(moved, text)
