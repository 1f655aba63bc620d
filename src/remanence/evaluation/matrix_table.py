"""An error matrix as an HTML table for notebooks, in the light or dark colours of the reader."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from remanence.evaluation.matrix import shown

if TYPE_CHECKING:
    from remanence.evaluation.matrix import ErrorMatrix

HOT = "213 94 0"  # vermilion; its opacity says how large an error is


def html_table(matrix: "ErrorMatrix") -> str:
    """One row per task, one column per step; cells of tasks not learned yet are faint."""
    tasks, percent = len(matrix.values), matrix.loss == "zero_one"
    finite = matrix.values[np.isfinite(matrix.values)]
    highest = 1.0 if percent else max(float(finite.max(initial=0.0)), float(np.finfo(float).tiny))
    head = "".join(f"<th>{'…' if j is None else j}</th>" for j in shown(tasks + 1))
    body = []
    for i in shown(tasks):
        cells = [_cell(matrix, i, j, highest) for j in shown(tasks + 1)]
        name = "…" if i is None else escape(matrix.names[i])
        body.append(f'<tr><th style="text-align: left">{name}</th>{"".join(cells)}</tr>')
    title = f"{escape(matrix.learner) + ': ' if matrix.learner else ''}{escape(matrix.loss)} error on each task"
    unit = " in %" if percent else ""
    return (
        f"<table><caption>{title}{unit}, by the number of tasks learned</caption>"
        f"<thead><tr><th>tasks learned</th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _cell(matrix: "ErrorMatrix", i: int | None, j: int | None, highest: float) -> str:
    if i is None or j is None:
        return "<td>…</td>"
    value = float(matrix.values[i, j])
    text = f"{100 * value:.1f}" if matrix.loss == "zero_one" else f"{value:.4g}"
    heat = 0.0 if np.isnan(value) else min(max(value / highest, 0.0), 1.0)
    faint = "" if j > i else "; opacity: 0.45"
    return f'<td style="text-align: right; background: rgb({HOT} / {round(70 * heat)}%){faint}">{text}</td>'
