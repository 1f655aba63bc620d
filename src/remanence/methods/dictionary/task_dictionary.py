"""A dictionary of tasks: the model of every task is a sparse sum of atoms that all tasks share.

    minimise over L, s₁ … s_T   Σₜ ‖Yₜ − Xₜ L sₜ‖² + μ Σₜ ‖sₜ‖₁ + λ‖L‖²                                    (T1)
    Xₜ L s = (sᵀ ⊗ Xₜ) vec L:  given the codes s, L is a ridge solution over rows sᵀ ⊗ Rₜ, RₜᵀRₜ = XₜᵀXₜ    (T2)
    given L, the code of a task is a lasso over the columns of Rₜ L (sparse_code.py)                      (T3)
    what the atoms leave of a new task becomes an atom, while one is free and (T1) falls:
    a = r/s with λ‖r‖²/s² + μs least, s³ = 2λ‖r‖²/μ                                                       (T4)
    an atom times v and its codes over v: least where v³ = μ Σ|s| / (2λ‖a‖²)                              (T5)

A task comes in by (T4), (T3) and its rows (T2); other codes stay as they are. The root Rₜ of every task is kept, so
that more rows of an old task can be learned: its rows (T2) are taken out and those of its new code put in.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike

from remanence.arrays import Array, read_only
from remanence.errors import InputError, NumericalError
from remanence.memory import root as roots
from remanence.memory.products import scores_of
from remanence.memory.root import Root, take_outputs
from remanence.methods.dictionary.sparse_code import sparse_code
from remanence.methods.protocol import Method
from remanence.validation import (
    check_block,
    check_count,
    check_memory,
    check_number,
    check_result,
    check_rows,
    check_start,
    quiet,
)

DIGITS = 1e-10  # of the atoms may be lost to taking tasks out; then the root is folded anew from the tasks


@dataclass(frozen=True, slots=True)
class TaskDictionaryState:
    """The atoms, and of every task its code and the root of its rows."""

    start: Annotated[Array, "d c"]
    atoms: Annotated[Array, "d k float64"]  # L
    codes: Annotated[Array, "t k c float64"]  # s of every task and output
    tasks: Annotated[tuple[Root, ...], "d c"]  # of X and Y − X start
    whole: Annotated[Root, "m *"]  # of the rows (T2), m = dk


@dataclass(frozen=True, slots=True)
class TaskDictionary(Method[TaskDictionaryState]):
    """Models of many tasks as sparse sums of a few atoms, which every task improves (ELLA).

    Each `update` is a new task, or with `task=` more rows of an old one. `weights` and `predict` are those of the
    latest task, or of the one that `task=` names; tasks are numbered from 0. Outputs share the atoms.

    Parameters
    ----------
    atoms : int, default=4
        How many models the tasks share. The memory of atoms grows like (features · atoms)².
    sparsity : float, default=0.1
        μ: the weight of ‖s‖₁ beside the squared errors; larger ones use fewer atoms per task.
    ridge : float, default=0.1
        λ: the weight of ‖L‖².

    Examples
    --------
    >>> import numpy as np, remanence as rm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.standard_normal((6, 2))
    >>> method = rm.TaskDictionary(atoms=2, sparsity=1e-3, ridge=1e-6)
    >>> state = method.init(features=6, outputs=1)
    >>> for rows in (20, 20, 20, 3):  # three rows are enough for the last task
    ...     X, W = rng.standard_normal((rows, 6)), atoms @ rng.standard_normal((2, 1))
    ...     state = method.update(state, X, X @ W)
    >>> bool(np.abs(method.weights(state) - W).max() < 0.01)
    True

    References
    ----------
    Ruvolo and Eaton (2013), "ELLA: an efficient lifelong learning algorithm", ICML.
    """

    atoms: int = 4
    sparsity: float = 0.1
    ridge: float = 0.1

    summary = "models of tasks as sparse sums of atoms that all tasks share; old tasks may get more rows"
    cost = "d² per row, (dk)²d per task"
    memory = "(dk)² + Td²"
    task_per_update = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "atoms", check_count(self.atoms, "atoms", hint="how many models the tasks share"))
        object.__setattr__(self, "sparsity", check_number(self.sparsity, "sparsity", hint="a small positive number"))
        object.__setattr__(self, "ridge", check_number(self.ridge, "ridge", hint="a small positive number"))

    def init(
        self, features: int, outputs: int, start: Any = None, dtype: DTypeLike = np.float64
    ) -> TaskDictionaryState:
        start = check_start(start, features, outputs, dtype)
        if start.dtype != np.float64:
            raise InputError(f"expected dtype float64 for TaskDictionary, got {start.dtype}")
        m, k = features * self.atoms, self.atoms
        check_memory(16.0 * m * m, f"{k} atoms of {features} features", "use fewer atoms or features")
        return TaskDictionaryState(start, np.zeros((features, k)), np.zeros((0, k, outputs)), (), roots.empty(m, 1))

    # Learning

    @quiet
    def update(
        self, state: TaskDictionaryState, X: Any, Y: Any, donate: bool = False, task: int | None = None
    ) -> TaskDictionaryState:
        """Learn rows of a new task, or of the one that `task` numbers; see `Method.update`."""
        X, Y = check_block(X, Y, state.start)
        number = len(state.tasks) if task is None else self._number(state, task, new=True)
        if number == len(state.tasks):
            return self._put_in(state, number, roots.empty(*state.start.shape).folded(X, Y - X @ state.start))
        rows = state.tasks[number].folded(X, Y - X @ state.start)
        return self._put_in(self.without_task(state, number), number, rows)

    @quiet
    def track(
        self, state: TaskDictionaryState, X: Any, Y: Any, donate: bool = False, task: int | None = None
    ) -> tuple[TaskDictionaryState, Array]:
        """Learn rows as `update` does; errors are those of the task before, for all rows: (n, c)."""
        X, Y = check_block(X, Y, state.start)
        fresh = task is None or self._number(state, task, new=True) == len(state.tasks)
        errors = Y - X @ self.weights(state, None if fresh else task)
        return self.update(state, X, Y, donate, task), errors

    @quiet
    def without_task(self, state: TaskDictionaryState, task: int) -> TaskDictionaryState:
        """The state with this task taken out; the numbers of the others stay, and its own may be learned anew."""
        number = self._number(state, task)
        tasks, codes = list(state.tasks), state.codes.copy()
        tasks[number], codes[number] = roots.empty(*state.start.shape), 0.0
        left = replace(state, tasks=tuple(tasks), codes=codes)
        return self._solved(replace(left, whole=_taken_out(state, number, left, self.ridge)))

    @quiet
    def remove(self, state: TaskDictionaryState, X: Any, Y: Any, task: int) -> TaskDictionaryState:
        """The state with these rows taken out of a task, whose code is found anew; refused if it cannot have them."""
        X, Y = check_block(X, Y, state.start)
        number = self._number(state, task)
        rows = roots.removed(state.tasks[number], X, Y - X @ state.start)
        return self._put_in(self.without_task(state, number), number, rows)

    @quiet
    def merge(self, a: TaskDictionaryState, b: TaskDictionaryState) -> TaskDictionaryState:
        """The state a with the tasks of b learned after its own, from their roots; they get the next numbers."""
        if not np.array_equal(a.start, b.start) or a.atoms.shape != b.atoms.shape:
            raise InputError("expected two states of one shape and start, got others")
        for rows in b.tasks:
            a = self._put_in(a, len(a.tasks), rows)
        return a

    @quiet
    def refined(self, state: TaskDictionaryState, rounds: int = 10) -> TaskDictionaryState:
        """The state after further rounds of (T5), (T3) for every task, and (T2): `loss` falls with each of them."""
        for _ in range(check_count(rounds, "rounds")):
            sizes, uses = np.square(state.atoms).sum(axis=0), np.abs(state.codes).sum(axis=(0, 2))
            used = (sizes > 0) & (uses > 0)
            v = np.cbrt(np.divide(self.sparsity * uses, 2 * self.ridge * sizes, out=np.ones(self.atoms), where=used))
            codes = np.array([self._code(v * state.atoms, rows) for rows in state.tasks])  # (T5)
            state = replace(state, codes=codes.reshape(state.codes.shape))
            state = self._solved(replace(state, whole=_folded(state)))
        return state

    # Asking

    @quiet
    def weights(self, state: TaskDictionaryState, task: int | None = None) -> Array:
        """The model (d, c) of the latest task, or of the one that `task` numbers."""
        if not state.tasks and task is None:
            return read_only(state.start)
        number = len(state.tasks) - 1 if task is None else self._number(state, task)
        W = state.start + state.atoms @ state.codes[number]
        check_result(W)
        return read_only(W)

    @quiet
    def predict(self, state: TaskDictionaryState, X: Any, task: int | None = None) -> Array:
        """The predictions (n, c) at rows X (n, d) of the latest task, or of the one that `task` numbers."""
        W = self.weights(state, task)
        return scores_of(check_rows(X, len(W), W.dtype, finite=False), W)

    @quiet
    def loss(self, state: TaskDictionaryState) -> float:
        """The objective (T1) at the atoms and codes of this state."""
        total = self.sparsity * float(np.abs(state.codes).sum()) + self.ridge * float(np.square(state.atoms).sum())
        for rows, code in zip(state.tasks, state.codes, strict=True):
            total += float(rows.rest.sum() + np.square(rows.target - rows.factor @ state.atoms @ code).sum())
        return total

    def template(self, state: TaskDictionaryState) -> Array:
        return state.start

    def accepts_state(self, state: object) -> bool:
        if not isinstance(state, TaskDictionaryState):
            return False
        (d, c), k = state.start.shape, self.atoms
        shapes = (state.atoms.shape, state.codes.shape, state.whole.shape)
        return shapes == ((d, k), (len(state.tasks), k, c), (d * k, 1))

    @quiet
    def with_outputs(self, state: TaskDictionaryState, sources: Array) -> TaskDictionaryState:
        k, c = self.atoms, state.start.shape[1]
        codes = take_outputs(state.codes.reshape(-1, c), sources).reshape(-1, k, len(sources))
        tasks = tuple(rows.with_outputs(sources) for rows in state.tasks)
        changed = replace(state, start=take_outputs(state.start, sources), codes=codes, tasks=tasks)
        if set(range(c)) <= set(np.asarray(sources).tolist()):  # a new output has no code, so nothing else changes
            return changed
        return self._solved(replace(changed, whole=_folded(changed)))

    # Helpers

    def _put_in(self, state: TaskDictionaryState, number: int, rows: Root) -> TaskDictionaryState:
        """With the rows of a task that has none."""
        atoms = state.atoms.copy()
        free = [j for j in range(self.atoms) if not state.codes[:, j].any()]
        for output in range(rows.shape[1]):
            if free and (atom := self._new_atom(atoms, rows, output)) is not None:
                atoms[:, free.pop(0)] = atom
        code = self._code(atoms, rows)
        codes, tasks = [*state.codes], [*state.tasks]
        codes[number : number + 1], tasks[number : number + 1] = [code], [rows]
        new = replace(state, codes=np.array(codes), tasks=tuple(tasks))
        check_result(rows.factor, rows.target)
        return self._solved(replace(new, whole=state.whole.folded(*_rows(rows, code))))

    def _solved(self, state: TaskDictionaryState) -> TaskDictionaryState:
        """With the atoms that the codes of all tasks give (T2)."""
        (d, k), m = state.atoms.shape, len(state.whole.factor)
        L = state.whole.with_prior(self.ridge, np.zeros((m, 1))).solve()
        return replace(state, atoms=np.array(L.reshape(k, d).T, order="C"))

    def _code(self, atoms: Array, rows: Root) -> Array:
        """(k, c) The codes of a task (T3)."""
        A = rows.factor @ atoms
        code = np.column_stack([sparse_code(A, rows.target[:, j], self.sparsity) for j in range(rows.shape[1])])
        check_result(code)
        return code

    def _new_atom(self, atoms: Array, rows: Root, output: int) -> Array | None:
        """The atom (T4) for one output of a task, or None where (T1) would not fall."""
        A, z = rows.factor @ atoms, rows.target[:, output]
        z = z - A @ sparse_code(A, z, self.sparsity)
        left = replace(rows, target=np.asfortranarray(z[:, None]), rest=np.zeros(1), lost=None)
        r = left.with_prior(self.ridge, np.zeros((len(atoms), 1))).solve()[:, 0]
        square = float(r @ r)
        if not square > 0:
            return None
        s = np.cbrt(2 * self.ridge * square / self.sparsity)
        after = z - rows.factor @ r
        change = after @ after - z @ z + self.sparsity * s + self.ridge * square / s**2
        return np.asarray(r / s) if change < 0 else None

    def _number(self, state: TaskDictionaryState, task: Any, new: bool = False) -> int:
        known = len(state.tasks)
        if check_count(task, "task", low=0, hint="tasks are numbered from 0") >= known + new:
            raise InputError(f"expected task to be one of the {known} tasks learned, from 0, got {task}")
        return int(task)


def _rows(rows: Root, code: Array) -> tuple[Array, Array]:
    """The rows sᵀ ⊗ R of a task and their targets, output by output (T2)."""
    c = code.shape[1]
    return np.concatenate([np.kron(code[:, j], rows.factor) for j in range(c)]), rows.target.T.reshape(-1, 1)


def _folded(state: TaskDictionaryState) -> Root:
    """The root of the rows (T2) of all tasks, from their own roots."""
    whole = roots.empty(*state.whole.shape)
    for rows, code in zip(state.tasks, state.codes, strict=True):
        whole = whole.folded(*_rows(rows, code), donate=True)
    return whole


def _taken_out(state: TaskDictionaryState, number: int, left: TaskDictionaryState, ridge: float) -> Root:
    """The root without the rows of one task; folded anew from `left` where too many digits would be lost."""
    X, Y = _rows(state.tasks[number], state.codes[number])
    m = len(state.whole.factor)
    try:
        found = roots.removed(state.whole, X, Y)
        sizes = found.with_prior(ridge, np.zeros((m, 1))).inverse_diagonal()
    except (InputError, NumericalError):  # (rounding: they were learned)
        return _folded(left)
    lost = np.zeros(1) if found.lost is None else found.lost**2
    exact = (lost[:m] * sizes <= DIGITS).all() and lost[-1] <= DIGITS * found.energies()[-1]
    return found if exact else _folded(left)
