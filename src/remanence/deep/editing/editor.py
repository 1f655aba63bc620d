"""Edit what a layer answers to some keys, while its other answers stay, and take edits back exactly.

    W = W₀ + D,   D = argmin  Σᵢ wᵢ ‖kᵢᵀ(W₀ + D) − vᵢ‖²  +  what D changes of the preserved answers            (ED)

W₀ are the weights when the editor was made. The sum runs over the edits in force, so that D is the same whatever was
edited and undone before. The coordinates of preserved_keys.py turn it into the problem of least_change.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from remanence.arrays import Array
from remanence.deep.editing.edited_layer import EditedLayer, by_position, layer_input, to_float64
from remanence.deep.editing.editor_report import EditorReport, EditSummary
from remanence.deep.editing.editor_state import edits_from_parts, edits_to_parts, keys_from_parts, keys_to_parts
from remanence.deep.editing.least_change import effects, least_change
from remanence.deep.editing.preserved_keys import KeyCoordinates, PreservedKeys, norm, rank_within
from remanence.deep.guards.checks.batches import call_explained, call_model, check_batches
from remanence.deep.nn.eval_mode import eval_mode
from remanence.deep.nn.saved_parts import SavedParts
from remanence.deep.nn.wrappers import unwrap
from remanence.errors import InputError
from remanence.validation import check_count, check_number, check_numbers

LEAST_RIDGE = 1e-6  # of the mean square of a preserved key, where no ridge is given
SOLVED = 1e-8  # how far weights may be apart, relative to the largest, that were computed on other machines
HARD = {torch.float64: 1e-9, torch.float32: 1e-4}  # how far edits may move answers preserved exactly, relative to them
HARD_HALF = 0.03  # the same in half precision, of about as many digits as an answer has there


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit in force."""

    keys: Array  # (n, d)
    change: Array  # (n, c) wanted answers minus those of W₀
    weights: Array  # (n,) infinite: met exactly


class Editor:
    """Change the answers of one layer of a trained network by least squares, and undo changes exactly.

    Parameters
    ----------
    model : torch module
    layer : str
        The name of a `Linear` layer, or of a `Conv1D` of transformers.
    preserve : "soft" or "hard"
        Whether the answers to absorbed keys are weighed against the edits, or may not change at all.
    strength : float, optional
        The weight λ of the mean squared change of a preserved answer ("soft"). By default the number of inputs of the
        layer, or of absorbed keys where these are fewer: an edit whose key is as common as the absorbed ones is met
        about half way, one of a rarer key better.
    ridge : float, optional
        The weight μ of the squared change of the weights. By default a millionth of the weight of preserved answers.
    energy : float
        The share of the absorbed keys' energy that "hard" preserves; 1 is all of it, but for what rounding in the
        layer's precision adds to the keys.
    rank : int, optional
        Keep only so many leading directions of the absorbed keys, for wide layers; by default all.
    max_bytes : int, optional
        Instead of `rank`: keep as many directions as fit, in bytes that absorbing may take beside the batches.

    Notes
    -----
    Published methods are settings. With C the mean second moment of the absorbed keys: ROME and EMMET are "soft",
    ridge 0, with exact edits (`weight=inf`); MEMIT is "soft" with `strength` λ, ridge 0 and weight 1; AlphaEdit is
    "hard" with `ridge` 1 and weight 1.

    Examples
    --------
    >>> import torch
    >>> import remanence as rm
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    >>> editor = rm.deep.Editor(net, "2")
    >>> editor.absorb([torch.randn(100, 8, dtype=torch.float64)])
    >>> before = net[2].weight.detach().clone()
    >>> editor.edit(torch.randn(1, 8, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64), name="fact")
    >>> list(editor.edits())
    ['fact']
    >>> editor.undo("fact")
    >>> bool((net[2].weight == before).all())
    True

    References
    ----------
    Meng et al. (2022), "Locating and editing factual associations in GPT" (ROME).
    Meng et al. (2023), "Mass-editing memory in a transformer" (MEMIT).
    Gupta et al. (2024), "A unified framework for model editing" (EMMET).
    Fang et al. (2025), "AlphaEdit: null-space constrained knowledge editing for language models".
    """

    def __init__(
        self,
        model: nn.Module,
        layer: str,
        preserve: Literal["soft", "hard"] = "soft",
        *,
        strength: float | None = None,
        ridge: float | None = None,
        energy: float = 1.0,
        rank: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        if preserve not in ("soft", "hard"):
            raise InputError(f'expected preserve to be "soft" or "hard", got {preserve!r:.40}')
        if strength is not None:
            check_number(strength, "strength")
        if ridge is not None:
            check_number(ridge, "ridge", closed=preserve == "soft")
        if not 0 < check_number(energy, "energy") <= 1:
            raise InputError(f"expected energy in (0, 1], got {energy:g}")
        self.model = unwrap(model)
        self.layer = EditedLayer(self.model, layer)
        self.preserve, self.strength, self.ridge, self.energy = preserve, strength, ridge, energy
        if rank is not None and max_bytes is not None:
            raise InputError(f"expected a rank or max_bytes, got both, {rank!r:.40} and {max_bytes!r:.40}")
        self._start = self.layer.weights()
        if max_bytes is not None:
            rank = rank_within(check_count(max_bytes, "max_bytes"), len(self._start))
        self.rank = None if rank is None else check_count(rank, "rank")
        self._present = self.layer.present()
        self._kept = PreservedKeys.none(len(self._start), self.rank)
        self._edits: dict[str, Edit] = {}
        self._coordinates: KeyCoordinates | None = None
        self._whitened: dict[str, tuple[Array, Array]] = {}  # keys of edits in these coordinates, computed once
        self._waiting = False  # for the end of a block of edits made together
        self._lifted = False  # within a block without edits

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor beside the model."""
        names = ("preserve", "strength", "ridge", "energy", "rank")
        return {"layer": self.layer.name, **{name: getattr(self, name) for name in names}}

    # Preserving

    def absorb(self, batches: Iterable[Any], forward: Any = call_model, *, mask: Any = None) -> None:
        """Preserve what the layer answers now to the keys it meets on some batches.

        Parameters
        ----------
        batches : iterable of tensors, tuples or dicts
            Inputs of the model. Only the second moment of the layer's inputs is kept.
        forward : callable(model, batch), optional
            How the model is called on a batch.
        mask : callable(batch), optional
            A boolean tensor, one entry per position of the layer's inputs: False where there is padding. By default
            "attention_mask" of a dict, where it has the shape of the positions.
        """
        self._check_alone("absorbing keys")
        if self._edits:
            raise InputError(
                f"expected no edits in force while keys are absorbed, got {len(self._edits)}: what is preserved are "
                f"the answers without them; undo them first, or make a new Editor, for which they are the present"
            )
        self._check_untouched()
        kept, seen = self._kept, 0
        for batch in check_batches(batches):
            keys = self._keys_of(batch, forward, mask)
            kept, seen = kept.with_keys(keys, self.rank), seen + len(keys)
        if not seen:
            raise InputError("expected batches in which the layer meets inputs, got none")
        self._keep(kept)

    def _keep(self, kept: PreservedKeys) -> None:
        """Preserve these keys; coordinates follow when they are needed."""
        self._kept, self._coordinates, self._whitened = kept, None, {}

    def _keys_of(self, batch: Any, forward: Any, mask: Any) -> Array:
        """The inputs of the layer on a batch, (n, d)."""
        inputs: list[Tensor] = []
        hook = self.layer.module.register_forward_pre_hook(
            lambda _, args, kwargs: inputs.append(layer_input(args, kwargs).detach()), with_kwargs=True
        )
        try:
            with eval_mode(self.model):
                call_explained(self.model, batch, forward)
        finally:
            hook.remove()
        if not inputs:
            raise InputError(f"the model did not call layer {self.layer.name!r} on this batch; nothing was absorbed")
        chosen = (
            mask(batch) if mask is not None else batch.get("attention_mask") if isinstance(batch, Mapping) else None
        )
        chosen = chosen if isinstance(chosen, Tensor) else None
        rows = []
        for found in inputs:
            found = by_position(found, [chosen])
            if chosen is not None and tuple(chosen.shape) == tuple(found.shape[:-1]):
                found = found[chosen.to(found.device).bool()]
            elif mask is not None:
                got = None if chosen is None else tuple(chosen.shape)
                raise InputError(f"expected a mask of shape {tuple(found.shape[:-1])}, got {got}")
            rows.append(to_float64(found).reshape(-1, found.shape[-1]))
        keys = np.concatenate(rows)
        if not np.isfinite(keys).all():
            raise InputError("the inputs of the layer contain NaN or infinity; nothing was absorbed")
        return keys

    # Editing

    def edit(self, keys: Any, values: Any, name: str, weight: Any = 1.0) -> None:
        """Make the layer answer `values` to `keys`.

        Parameters
        ----------
        keys : tensor (n, inputs)
            Inputs of the layer.
        values : tensor (n, outputs)
            Wanted outputs of the layer, its bias included.
        name : str
            Under which the edit can be undone.
        weight : float or array (n,)
            How much each row counts beside the preserved answers; infinity meets it exactly.
        """
        K, V = self._rows(keys, "keys", self._start.shape[0]), self._rows(values, "values", self._start.shape[1])
        if len(K) != len(V):
            raise InputError(f"expected as many values as keys, got {len(K)} keys and {len(V)} values")
        self._add(K, V - K @ self._start - self._present[1], name, weight)

    def undo(self, name: str) -> None:
        """Take an edit back: the weights are those of an editor that never made it."""
        if not isinstance(name, str) or name not in self._edits:
            raise InputError(f"expected an edit in force, {list(self._edits)[:10]}, got {name!r:.60}")
        self._check_untouched()
        self._apply({other: edit for other, edit in self._edits.items() if other != name})

    def keep(self, keys: Any, name: str, weight: Any = 1.0) -> None:
        """Answer to some keys what the layer answered before all edits.

        Absorbed keys are preserved on average. This is for answers that edits in force have changed all the same: each
        is an edit itself, whose value is the answer without edits, and it is weighed, strengthened and undone like one.

        Parameters
        ----------
        keys, name, weight
            See `edit`.
        """
        K = self._rows(keys, "keys", self._start.shape[0])
        self._add(K, np.zeros((len(K), self._start.shape[1])), name, weight)

    def _add(self, K: Array, change: Array, name: str, weight: Any) -> None:
        """Put one more edit in force."""
        if not isinstance(name, str) or not name:
            raise InputError(f"expected a text as the name of an edit, got {name!r:.40}")
        if name in self._edits:
            raise InputError(f"expected a new name, got {name!r:.60}, which is in force; undo it first")
        if not len(K):
            raise InputError("expected at least one key, got none")
        self._check_untouched()
        self._apply({**self._edits, name: Edit(K, change, _checked_weights(weight, len(K)))})

    def strengthen(self, unmet: Mapping[str, Any], factor: float = 2.0) -> None:
        """Multiply the weights of edits that the model does not answer well enough, in one solution.

        Parameters
        ----------
        unmet : dict of str to bool or boolean array
            Which edits, or which of their rows.
        factor : float
            What their weights are multiplied by; below 1 for edits that are answered better than needed.

        Examples
        --------
        >>> import torch
        >>> import remanence as rm
        >>> _ = torch.manual_seed(0)
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 3)).double()
        >>> rows, keys = torch.randn(100, 8).double(), torch.randn(4, 8).double()
        >>> editor = rm.deep.Editor(net, "0")
        >>> editor.absorb([rows])
        >>> editor.edit(keys, torch.eye(3)[[0, 1, 2, 0]].double(), name="classes")
        >>> for _ in range(20):
        ...     editor.strengthen({"classes": net(keys).argmax(1) != torch.tensor([0, 1, 2, 0])})
        >>> net(keys).argmax(1).tolist()
        [0, 1, 2, 0]
        """
        check_number(factor, "factor")
        self._check_names(unmet, "unmet rows")
        weights = {}
        for name, rows in unmet.items():
            old, marked = self._edits[name].weights, np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
            if marked.dtype != bool or marked.shape not in ((), old.shape):
                raise InputError(f"expected a boolean, or one per row ({len(old)}), for {name!r:.60}, got {rows!r:.60}")
            if marked.any():
                weights[name] = np.where(marked, factor * old, old)
        if weights:
            self.reweigh(weights)

    def reweigh(self, weights: Mapping[str, Any]) -> None:
        """Give edits in force other weights, in one solution: more to those that are not met well enough.

        Parameters
        ----------
        weights : dict of str to float or array
            A weight, or one per row, for every name whose weight changes; see `edit`.
        """
        self._check_names(weights, "weights")
        self._check_untouched()
        changed = {
            name: replace(self._edits[name], weights=_checked_weights(weight, len(self._edits[name].keys)))
            for name, weight in weights.items()
        }
        self._apply({**self._edits, **changed})

    @contextmanager
    def together(self) -> Iterator[None]:
        """Solve once, when the block ends, for all that is edited, weighed and undone in it; if it fails, for nothing.

        Examples
        --------
        >>> import torch
        >>> import remanence as rm
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 3))
        >>> editor = rm.deep.Editor(net, "0")
        >>> editor.absorb([torch.randn(100, 8)])
        >>> with editor.together():
        ...     for i in range(20):
        ...         editor.edit(torch.randn(1, 8), torch.randn(1, 3), name=f"fact {i}")
        >>> len(editor.edits())
        20
        """
        if self._waiting:
            raise InputError("expected one block of edits made together, got one within another")
        before, self._waiting = self._edits, True
        try:
            yield
            self._waiting = False
            if self._edits is not before:
                self._apply(self._edits)
        except BaseException:
            self._edits = before
            raise
        finally:
            self._waiting = False

    @contextmanager
    def without_edits(self) -> Iterator[None]:
        """The layer as it was before all edits, until the block ends.

        A value that is searched here does not depend on earlier edits: nothing that they moved by accident becomes a
        wish, and undoing one of them leaves the others what they would be without it.

        Examples
        --------
        >>> import torch
        >>> import remanence as rm
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        >>> editor = rm.deep.Editor(net, "2")
        >>> editor.absorb([torch.randn(100, 8)])
        >>> with editor.without_edits():
        ...     found = rm.deep.find_value(net, "2", torch.randn(1, 8), (), target=1)
        >>> editor.edit(found.key[None], found.value[None], name="fact")
        """
        self._check_untouched()
        present, self._lifted = self.layer.weights(), True
        try:
            self.layer.write(self._start)
            yield
        finally:
            self.layer.write(present)
            self._lifted = False

    def edits(self) -> dict[str, EditSummary]:
        """The edits in force by name: their rows, their size, how well they are met, and what they cost.

        `cost` is how far the preserved answers would move back, relative to them, if this edit alone were undone.
        """
        if not self._edits:
            return {}
        coordinates, rows = self._problem(self._edits)
        D = self._change(self._edits)
        ends = np.cumsum([len(edit.keys) for edit in self._edits.values()])
        groups = [np.arange(end - len(edit.keys), end) for end, edit in zip(ends, self._edits.values(), strict=True)]
        start, answers = norm(self._start), self._kept.answer_norm(self._start)
        found = {}
        for (name, edit), (left, right) in zip(self._edits.items(), effects(*rows, groups), strict=True):
            U = coordinates.unwhiten(left)
            size, moved = norm(U @ right), norm(self._kept.answers(U) @ right)
            missed = relative(edit.keys @ D - edit.change, edit.change + edit.keys @ self._start)
            found[name] = EditSummary(
                len(edit.keys),
                size / start if start else 0.0,
                missed,
                moved / answers if answers else 0.0,
            )
        return found

    def merge(self, other: "Editor") -> None:
        """Take over the absorbed keys and the edits of another editor of the same layer.

        Parameters
        ----------
        other : Editor
            With the same settings, begun from the same weights; names of edits must differ.
        """
        self._check_alone("merging")
        if not isinstance(other, Editor) or other.settings != self.settings:
            raise InputError("expected an Editor with the same layer and settings to merge, got another one")
        if other is self:
            raise InputError("expected another Editor to merge, got this one, whose keys would count twice")
        if not (np.array_equal(self._start, other._start) and np.array_equal(self._present[1], other._present[1])):
            raise InputError("expected an Editor that began from the same weights, got one that began from others")
        if shared := sorted(set(self._edits) & set(other._edits)):
            raise InputError(f"expected edits of different names, got {shared[:5]} in both; undo them in one")
        self._check_untouched()
        before = self._kept
        self._keep(before.merged(other._kept, self.rank))
        try:
            self._apply({**self._edits, **other._edits})
        except BaseException:
            self._keep(before)
            raise

    # Solving

    def _apply(self, edits: dict[str, Edit]) -> None:
        """Put these edits in force, and no others."""
        if self._waiting:
            self._edits = edits
            return
        D = self._change(edits)
        W = self._start + D
        allowed = HARD.get(self.layer.parameter.dtype, HARD_HALF)
        if self.preserve == "hard" and self.energy == 1 and not (moved := self._moved(D)) <= allowed:
            raise InputError(
                f"these edits ask for a change along keys that are preserved exactly: it would move the answers to "
                f'them by {moved:.1g} of their size; use a wider layer, an energy below 1, or preserve="soft"'
            )
        self.layer.write(W)
        self._edits, self._present = edits, self.layer.present()
        self._whitened = {name: pair for name, pair in self._whitened.items() if name in edits}

    def _change(self, edits: Mapping[str, Edit]) -> Array:
        """D (d, c) of (ED)."""
        if not edits:
            return np.zeros_like(self._start)
        coordinates, rows = self._problem(edits)
        return coordinates.unwhiten(least_change(*rows))

    def _problem(self, edits: Mapping[str, Edit]) -> tuple[KeyCoordinates, tuple[Array, Array, Array]]:
        """The coordinates, and keys in them, changes and weights of all rows."""
        coordinates = self._coordinates
        if coordinates is None:
            coordinates = self._coordinates = self._make_coordinates()
        for name, edit in edits.items():
            if name not in self._whitened or self._whitened[name][0] is not edit.keys:
                self._whitened[name] = edit.keys, coordinates.whiten(edit.keys)
        A = np.concatenate([self._whitened[name][1] for name in edits])
        T, w = (np.concatenate([getattr(e, part) for e in edits.values()]) for part in ("change", "weights"))
        return coordinates, (A, T, w)

    def _make_coordinates(self) -> KeyCoordinates:
        strength = float(min(self._kept.rows, len(self._start))) if self.strength is None else self.strength
        ridge = self.ridge
        if ridge is None:
            size = self._kept.energy / max(self._kept.rows, 1) / len(self._start)
            ridge = LEAST_RIDGE * (size * (strength if self.preserve == "soft" else 1.0) or 1.0)
        if self.preserve == "hard":
            return self._kept.hard(self.energy, ridge, torch.finfo(self.layer.parameter.dtype).eps)
        return self._kept.soft(strength, ridge)

    def _check_names(self, given: Any, what: str) -> None:
        if not isinstance(given, Mapping):
            raise InputError(f"expected a dict of names and {what}, got {type(given).__name__}")
        if unknown := [name for name in given if name not in self._edits]:
            raise InputError(f"expected edits in force, {list(self._edits)[:10]}, got {unknown[:5]}")

    def _check_alone(self, what: str) -> None:
        """Refuse within `together` what is not taken back where the block fails."""
        if self._waiting:
            raise InputError(f"expected {what} before or after a block of edits made together, got it within one")

    def _check_untouched(self) -> None:
        if self._lifted:
            raise InputError(
                "expected this after the block without edits: within it the layer is as it was before all of them"
            )
        self._check_present()

    def _check_present(self) -> None:
        """Refuse to speak of weights that others have changed; within a block without edits they are not looked at."""
        if not self._lifted:
            self.layer.check_present(self.model, self._present)

    @staticmethod
    def _rows(rows: Any, name: str, width: int) -> Array:
        if isinstance(rows, Tensor) and (rows.is_complex() or rows.is_meta or rows.layout != torch.strided):
            raise InputError(f"expected {name} as dense real numbers in memory, got {rows.dtype} in {rows.layout}")
        found = to_float64(rows) if isinstance(rows, Tensor) else check_numbers(rows, name, np.float64).copy()
        if found.ndim != 2 or found.shape[1] != width:
            raise InputError(f"expected {name} of shape (rows, {width}), got {found.shape}; for one row pass x[None]")
        if not np.isfinite(found).all():
            raise InputError(f"{name} contain NaN or infinity; nothing was edited")
        return found

    # Reporting

    def _moved(self, D: Array) -> float:
        """How far a change moves the preserved answers, relative to them."""
        answers = self._kept.answer_norm(self._start)
        return self._kept.answer_norm(D) / answers if answers else 0.0

    def report(self) -> EditorReport:
        """What is preserved, what was edited, and how well both hold."""
        self._check_present()
        D = self._change(self._edits)
        K, T = (
            np.concatenate([np.empty((0, width)), *(getattr(e, part) for e in self._edits.values())])
            for part, width in (("keys", len(D)), ("change", D.shape[1]))
        )
        written = self.layer.weights() - self._start
        return EditorReport(
            layer=self.layer.name,
            absorbed=self._kept.rows,
            kept_energy=self._kept.kept_energy(),
            edits=len(self._edits),
            missed=relative(K @ D - T, T + K @ self._start),
            preserved_moved=self._moved(D),
            norm_ratio=relative(self._start + D, self._start),
            rounding=relative(written - D, self._start),
            hard=self.preserve == "hard" and self.energy == 1.0,
            precision=str(self.layer.parameter.dtype).removeprefix("torch."),
        )

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """Absorbed keys, edits and the weights they began from, as tensors and numbers."""
        self._check_alone("saving")
        self._check_untouched()
        return {
            "start": torch.from_numpy(self._start.copy()),
            "preserved": keys_to_parts(self._kept),
            "edits": edits_to_parts(self._edits),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`; refused where the layer's weights are not those that were saved with it."""
        if not isinstance(state, Mapping):
            raise InputError(f"expected the state_dict of an Editor, got {type(state).__name__}")
        self._check_alone("loading")
        d, c = self._start.shape
        fresh = Editor(self.model, self.layer.name, **{k: v for k, v in self.settings.items() if k != "layer"})
        fresh._start = SavedParts(dict(state)).array("start", d, c)
        fresh._kept = keys_from_parts(state.get("preserved"), d, self.rank)
        fresh._edits = {name: Edit(*parts) for name, parts in edits_from_parts(state.get("edits"), d, c).items()}
        expected = fresh._start + fresh._change(fresh._edits)
        allowed = max(4 * torch.finfo(self.layer.parameter.dtype).eps, SOLVED) * max(np.abs(expected).max(), 1e-300)
        if not np.abs(self.layer.weights() - expected).max() <= allowed:
            raise InputError(
                f"the weights of layer {self.layer.name!r} are not those this editor was saved with; load the weights "
                f"of the edited model first"
            )
        self.__dict__.update(fresh.__dict__)


def relative(difference: Array, to: Array) -> float:
    """‖difference‖ / ‖to‖, 0 where there is nothing to compare with."""
    size = norm(to)
    return norm(difference) / size if size else 0.0


def _checked_weights(weight: Any, rows: int) -> Array:
    found = check_numbers(weight, "weight", np.float64)
    if found.shape not in ((), (rows,)) or not (found >= np.finfo(float).tiny).all():
        raise InputError(f"expected weight to be a number above 0, or one per row ({rows}), got {weight!r:.60}")
    return np.broadcast_to(found, (rows,)).copy()
