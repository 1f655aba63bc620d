"""The exceptions of the package. Every message says what was expected, what was received and what to try."""

from collections.abc import Sequence


class _WithArguments(Exception):
    """Names the arguments that would solve a problem, so that an interface can add the names of its own options."""

    arguments: tuple[str, ...] = ()

    def __init__(self, *args: object, arguments: Sequence[str] = ()) -> None:
        super().__init__(*args)
        if arguments:
            self.arguments = tuple(arguments)


class InputError(_WithArguments, ValueError):
    """Invalid data or settings; also a ValueError. The call has changed nothing.

    Examples
    --------
    >>> import remanence as rm
    >>> try:
    ...     rm.RLS(ridge=-1.0)
    ... except rm.InputError as error:
    ...     print("ridge" in str(error))
    True
    """


class NumericalError(_WithArguments, ArithmeticError):
    """A computation overflowed or lost its precision; also an ArithmeticError. The call has changed nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from remanence import kalman
    >>> import remanence as rm
    >>> I = np.eye(1)
    >>> growing = kalman.LinearGaussian(A=1e120 * I, Q=I, X=I, R=I, mean=[1.0], cov=I)
    >>> try:
    ...     kalman.filter(growing, np.full((4, 1), np.nan))
    ... except rm.NumericalError:
    ...     print("overflow")
    overflow
    """


class FileError(_WithArguments, OSError):
    """A file is damaged, or cannot be read or written; also an OSError.

    Examples
    --------
    >>> import remanence as rm
    >>> try:
    ...     rm.load("missing.safetensors")
    ... except rm.FileError:
    ...     print("no such file")
    no such file
    """


class MissingDependency(ImportError):
    """An optional package is required and not installed; also an ImportError.

    Examples
    --------
    >>> import remanence as rm
    >>> raise rm.MissingDependency("remanence.deep needs torch; pip install 'remanence[deep]'")
    Traceback (most recent call last):
    remanence.errors.MissingDependency: remanence.deep needs torch; pip install 'remanence[deep]'
    """
