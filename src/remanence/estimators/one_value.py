"""An estimator whose attributes are read and replaced as one value.

scikit-learn, pickle and the records of model files expect what was learned in attributes of their own (`classes_`,
`state_`, …). Read one after the other while another thread learns, they could come from two models. So the attribute
dictionary itself is treated as the one value:

    predicting   copies the dictionary and reads only the copy
    learning     fills in a draft with a dictionary of its own, and assigns it at the end in one step
    rewriting    the same model in another form (another ridge, another offset): one `update` of the dictionary it was
                 read from, so that it can never undo what another thread has learned meanwhile

Copying, assigning and updating a dictionary of plain text keys are single steps in CPython. There is no lock, so
nothing can be left locked in a forked process; and a call that raises has changed nothing, because its draft is
discarded. Only one thread may learn at a time.
"""

from typing import Any, Self


class OneValue:
    """Base class of all estimators that learn."""

    def _with(self, attributes: dict[str, Any]) -> Self:
        """An estimator of this class that has these attributes."""
        other = object.__new__(type(self))
        other.__dict__ = attributes
        return other

    def _draft(self) -> Self:
        """A copy to read from, or to work on and hand over."""
        return self._with(self.__dict__.copy())

    def _blank(self) -> Self:
        """A draft that has learned nothing."""
        return self._with({name: value for name, value in self.__dict__.items() if not is_learned(name)})

    def _hand_over(self, draft: Self) -> Self:
        """Become what the draft is."""
        self.__dict__ = draft.__dict__
        return self


def is_learned(name: str) -> bool:
    """Whether an attribute of this name is something learned, by scikit-learn's custom."""
    return name.endswith("_") and not name.startswith("_")
