"""One edit spread over several layers: each takes its share of what is still missing at the last of them.

layer l of L:   v_l = h_l + (v − h_L) / (L − l + 1)        h: present outputs of the layers                (SL)
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from remanence.deep.editing.edited_layer import by_position, check_called_once, layer_input
from remanence.deep.editing.editor import Editor
from remanence.deep.editing.value_search import row_index
from remanence.deep.guards.checks.batches import call_explained, call_model
from remanence.deep.nn.eval_mode import eval_mode
from remanence.errors import InputError


def edit_layers(
    editors: Sequence[Editor], inputs: Any, position: Any, value: Any, name: str, weight: Any = 1.0
) -> None:
    """Spread edits over several layers, whose outputs are added to one stream, as residual networks do.

    Parameters
    ----------
    editors : list of Editor
        Of one model, in the order in which it calls their layers, with outputs of one width.
    inputs : tensor, tuple or dict
        A batch whose rows are contexts of a fact, or facts.
    position : int, tensor (rows,) or tuple
        As for `find_values`.
    value : tensor (outputs,) or (rows, outputs)
        What the last layer should answer, in all rows or in each, see `find_values`.
    name : str
        Of the edit in every editor; undo it in each.
    weight : float
        See `Editor.edit`.

    Examples
    --------
    >>> import torch
    >>> import remanence as rm
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).double()
    >>> editors = [rm.deep.Editor(net, name) for name in ("0", "1")]
    >>> rows = torch.randn(30, 4, dtype=torch.float64)
    >>> for editor in editors:
    ...     editor.absorb([rows])
    >>> rm.deep.edit_layers(editors, rows[:1], (), torch.ones(4, dtype=torch.float64), name="fact")
    >>> [list(editor.edits()) for editor in editors]
    [['fact'], ['fact']]

    References
    ----------
    Meng et al. (2023), "Mass-editing memory in a transformer".
    """
    if not editors or len({id(editor.model) for editor in editors}) != 1:
        raise InputError("expected editors of one model, at least one")
    if len(editors) > 1:  # each takes its share of what those before it have left
        for editor in editors:
            editor._check_alone("spreading edits over layers")
    place = position if isinstance(position, tuple) else (position,)
    done: list[Editor] = []
    try:
        for k, editor in enumerate(editors):
            keys, present = _at(editor, inputs, place)
            _, last = _at(editors[-1], inputs, place)
            goal = torch.as_tensor(value).to(last)
            if goal.shape not in (last.shape, last.shape[1:]) or present.shape != last.shape:
                raise InputError(
                    f"expected a value of shape {tuple(last.shape[1:])} or {tuple(last.shape)} and layers "
                    f"of that width, got {tuple(goal.shape)} and {tuple(present.shape[1:])}"
                )
            editor.edit(keys, present + (goal - last) / (len(editors) - k), name, weight)
            done.append(editor)
    except BaseException:
        for editor in done:
            editor.undo(name)
        raise


def _at(editor: Editor, inputs: Any, place: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Inputs and outputs of the layer at a position, (rows, width) each."""
    seen: list[tuple[Tensor, Tensor]] = []
    hook = editor.layer.module.register_forward_hook(
        lambda _, args, kwargs, output: seen.append((layer_input(args, kwargs), output)), with_kwargs=True
    )
    try:
        with eval_mode(editor.model):
            call_explained(editor.model, inputs, call_model)
    finally:
        hook.remove()
    check_called_once(editor.layer.name, len(seen))
    keys, values = (by_position(part, inputs) for part in seen[0]) if len(place) == 1 else seen[0]
    index = row_index(place, len(values), values.device)
    try:
        return keys[index], values[index]
    except (IndexError, RuntimeError, TypeError):
        raise InputError(f"expected a position within {tuple(values.shape[1:-1])}, got {place}") from None
