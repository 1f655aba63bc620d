"""A run as one HTML page that needs nothing else: pictures inside, no script, no request, light or dark."""

import re
from html import escape

from jinja2 import Environment
from matplotlib.figure import Figure

from remanence.report.pictures import INK, PAPER, accuracy_figure, matrix_figure, rendered
from remanence.report.run import Run
from remanence.report.terminal import all_notes, figures

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Remanence: {{ run.settings.stream or "a run" }}</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --card: #f6f7f9; --line: #d5d9df; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #9aa4af; --paper: #14171b; --card: #1d2126; --line: #363c44; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: clamp(1.25rem, 4.5vw, 1.75rem); line-height: 1.3; margin: 0.25rem 0 0.75rem; text-wrap: balance; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 0.5rem; }
p { margin: 0.5rem 0; max-width: 44rem; }
.soft, li { color: var(--soft); font-size: 0.9rem; }
ul { padding-left: 1.1rem; max-width: 44rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; max-width: 44rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.5rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: bottom; }
thead th { font-size: 0.85rem; color: var(--soft); font-weight: 600; hyphens: manual; }
thead [colspan] { border-bottom: 0; padding-bottom: 0; text-align: center; }
tbody th { font-weight: 600; text-align: left; }
.ceiling th, .ceiling td { font-style: italic; }
figure { margin: 0; align-self: start; padding: 0.75rem; background: var(--card); border-radius: 8px; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; color: var(--ink); }
.maps { display: grid; gap: 0.75rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18.5rem), 1fr)); }
.top { display: grid; gap: 1.25rem 2rem; }
.top > * { min-width: 0; }
.curve { max-width: 40rem; }
@media (min-width: 60rem) { .top { grid-template-columns: 1.3fr 1fr; } }
@media (min-width: 30.01rem) { tbody th, thead th { white-space: nowrap; } }
pre { background: var(--card); padding: 0.75rem; border-radius: 8px; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 0.85rem; }
@media (max-width: 30rem) { th, td { padding: 0.35rem 0.2rem; font-size: 0.8rem; } thead th { font-size: 0.72rem; } }
</style>
</head>
<body>
<p class="soft">Remanence{% if run.settings.stream %} · {{ run.settings.stream }}{% endif %}
· {{ run.tasks|length }} task{{ "s" if run.tasks|length > 1 }}</p>
<h1>{{ run.headline }}</h1>
<div class="top">
<div>
<div class="scroll">
<table>
<thead>
<tr><td rowspan="2"></td><th scope="col" rowspan="2">Accu&shy;racy, %</th>
<th scope="col" rowspan="2">Forget&shy;ting</th><th scope="colgroup" colspan="2">Transfer</th>
<th scope="col" rowspan="2">Sec&shy;onds</th></tr>
<tr><th scope="col">back&shy;ward</th><th scope="col">for&shy;ward</th></tr>
</thead>
<tbody>
{% for outcome, cells in rows %}<tr class="{{ outcome.role }}"><th scope="row">{{ outcome.label }}</th>
{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</div>
<p class="soft">Accuracy is the mean over all tasks at the end. Forgetting and transfer are in points: how far the
accuracy on a task fell since it was learned, how far it rose through later tasks (backward), and how far through
earlier ones (forward).</p>
{% if notes %}<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
</div>
<figure class="curve"><figcaption>As the tasks go by</figcaption>{{ curve|safe }}</figure>
</div>

<h2>What each still knows</h2>
<p class="soft">Wrong answers in %, asked about each task (row) after so many tasks were learned (column). Dark is
right, yellow is wrong, faint was not learned yet.</p>
<div class="maps">
{% for label, picture in maps %}<figure><figcaption>{{ label }}</figcaption>{{ picture|safe }}</figure>
{% endfor %}</div>

{% if run.command %}<h2>Run it again</h2>
<pre>{{ run.command }}</pre>{% endif %}
<p class="soft">{% for name, version in run.versions.items() %}{{ name }} {{ version }}
{{- ", " if not loop.last }}{% endfor %}</p>
</body>
</html>
"""


def page(run: Run) -> str:
    """The whole page."""
    return (
        Environment(autoescape=True)
        .from_string(TEMPLATE)
        .render(
            run=run,
            rows=[(outcome, figures(outcome)) for outcome in run.outcomes],
            notes=all_notes(run),
            curve=inline(accuracy_figure(run), "Accuracy on the tasks learned so far, after each task", "curve"),
            maps=[
                (o.label, inline(matrix_figure(o), f"Error matrix of {o.label}", f"map{k}"))
                for k, o in enumerate(run.outcomes)
            ],
        )
    )


def inline(figure: Figure, description: str, prefix: str) -> str:
    """The figure as an SVG element for the inside of a page.

    What only a file needs goes away, the ink becomes the reader's, and every id gets a prefix, as ids of two figures
    on one page must differ.
    """
    text = rendered(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(xmlns(:\w+)?|width|height)="[^"]*"', "", text[: text.index(">")]) + text[text.index(">") :]
    text = text.replace("xlink:href", "href").replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)
