"""scikit-learn's own checks at the door of the estimators, refusing in our words' kind."""

from typing import Any

from sklearn.exceptions import NotFittedError

from remanence.errors import InputError


def refused_as_input_error(check: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a check; what it refuses is refused as an InputError."""
    try:
        return check(*args, **kwargs)
    except NotFittedError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
