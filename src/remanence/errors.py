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
    """The data or a setting cannot be used as it is."""


class NumericalError(_WithArguments, ArithmeticError):
    """A computation left the range in which its result can be trusted."""


class FileError(_WithArguments, OSError):
    """A file is not what it claims to be, or cannot be read or written."""


class MissingDependency(ImportError):
    """An optional package is needed for this call and is not installed."""
