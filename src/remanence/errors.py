"""What can go wrong, in four words; every message says what was expected, what came, and what to try."""


class InputError(ValueError):
    """The data or a setting handed to us cannot be used as it is."""


class NumericalError(ArithmeticError):
    """The arithmetic left the range in which its answer can be trusted."""


class FileError(OSError):
    """A file is not what it claims to be, or cannot be read or written."""


class MissingDependency(ImportError):
    """An optional package is needed for this call and is not installed."""
