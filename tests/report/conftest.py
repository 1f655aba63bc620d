"""Small runs made by hand, whose every figure is known; and a browser for their pages, if this machine has one."""

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from remanence.certificates import Certificate
from remanence.evaluation import ErrorMatrix
from remanence.report import Outcome, Run

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Elements that stick out of the window, unless something around them scrolls; and letters that stick out of a picture.
STICKING_OUT = """() => {
  const wide = document.documentElement.clientWidth, found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('.scroll') && !e.matches('.scroll')) continue;
    if (e.closest('svg') && !e.matches('svg')) continue;
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > wide + 1 || box.left < -1)) found.push(`${e.tagName} ${e.textContent.slice(0, 40)}`);
  }
  for (const t of document.querySelectorAll('svg text')) {
    const box = t.getBoundingClientRect(), all = t.closest('svg').getBoundingClientRect();
    if (box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1 || box.bottom > all.bottom + 1)
      found.push(`letters ${t.textContent}`);
  }
  if (document.documentElement.scrollWidth > wide) found.push('the page scrolls sideways');
  return found;
}"""

# The contrast of text to what is painted behind it, as WCAG counts it; cells of heat maps bring their own colours.
CONTRASTS = """() => {
  const numbers = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => {
    const [r, g, b] = numbers(c).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {
    for (let at = e; at; at = at.parentElement) {
      const c = getComputedStyle(at).backgroundColor;
      if (!c.startsWith('rgba') || numbers(c)[3] > 0.5) return c;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const e of document.querySelectorAll('h1, h2, h3, p, li, th, td, summary, .status, pre, svg text')) {
    const svg = e.closest('svg');
    if (!e.textContent.trim() || (svg && svg.querySelector('image'))) continue;
    const style = getComputedStyle(e), one = light(svg ? style.fill : style.color), other = light(behind(svg || e));
    found.push([(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), e.textContent.trim().slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""

HELD = Certificate("It equals joint training", "a <source>", ("cond 2",), 1e-15, 1e-12, name="equal")
FAILED = Certificate("Answers have not moved", "here", (), 0.5, 1e-12)
UNMET = Certificate("Information grows", "there", (), float("nan"), float("nan"), unmet="it keeps <nothing>")


def make(name, label, last, role="learner", note="", learned=0.0, tasks=2, certificates=(), confusion=None):
    """Errors 1 before a task is learned, `learned` just after, `last` at the end; a list of `last` is one a seed."""
    several = last if isinstance(last[0], list) else [last]
    matrices = tuple(matrix(name, one, learned, tasks) for one in several)
    return Outcome(name, label, matrices, role, note, certificates, confusion)


def matrix(name, last, learned, tasks):
    values = np.ones((tasks, tasks + 1))
    for i in range(tasks):
        values[i, i + 1 :] = learned
    values[:, -1] = last
    names = [f"task {t}" for t in range(1, tasks + 1)]
    return ErrorMatrix(values, tuple(names), "zero_one", np.full(tasks, 0.5), name, 2048)


@pytest.fixture(scope="session")
def outcome():
    return make


@pytest.fixture(scope="session")
def run():
    return Run(
        (
            make("finetune", "Fine-tuning", [1.0, 0.0], "floor"),
            make("rls", "RLS", [0.1, 0.1], note="A note with <b> & quotes.", certificates=(HELD, FAILED, UNMET)),
            make("lms", "LMS", [0.9, 0.1]),
            make("joint", "Ridge retrained", [0.05, 0.05], "reference"),
        ),
        {"stream": "by hand", "seed": 0},
        "remanence run --stream 'by hand'",
        {"python": "3"},
        ("About <the> stream.",),
    )


@pytest.fixture(scope="session")
def seeded():
    """Two seeds, whose mean and spread are known."""
    rls = make("rls", "RLS", [[0.1, 0.1], [0.3, 0.1]])
    return Run((rls, make("joint", "Ridge retrained", [[0.0, 0.0], [0.2, 0.2]], "reference")), {"stream": "by hand"})


def find_browser() -> str | None:
    """The program, or None; REMANENCE_BROWSER names one that stands elsewhere."""
    named = os.environ.get("REMANENCE_BROWSER")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Visit:
    """An opened page, and what it did: requests beyond its own file, and what it complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def sticking_out(self) -> list[str]:
        return list(self.page.evaluate(STICKING_OUT))

    def contrasts(self) -> list[tuple[float, str]]:
        """From the worst."""
        return [(ratio, text) for ratio, text in self.page.evaluate(CONTRASTS)]


@pytest.fixture(scope="module")
def browser():
    """A headless browser; the test is skipped, with the reason, where none can be had."""
    api = pytest.importorskip("playwright.sync_api", reason="no browser driver: pip install playwright")
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed and REMANENCE_BROWSER is not set")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS, timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _visiting(browser, file, width=1280, scheme="light"):
    """The file opened in a window of this width by a reader who prefers this scheme; no request gets out."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    visit = Visit(context.new_page())

    def answer(route):
        if route.request.url == file.as_uri() or route.request.url.startswith("data:"):
            route.continue_()
        else:
            visit.requests.append(route.request.url)
            route.abort()

    context.route("**/*", answer)
    visit.page.on("console", lambda m: visit.complaints.append(m.text) if m.type in ("error", "warning") else None)
    visit.page.on("pageerror", lambda problem: visit.complaints.append(str(problem)))
    visit.page.goto(file.as_uri())
    try:
        yield visit
    finally:
        context.close()


@pytest.fixture
def visiting(browser):
    """`with visiting(file, width, scheme) as visit`, in a browser if there is one."""
    return partial(_visiting, browser)
