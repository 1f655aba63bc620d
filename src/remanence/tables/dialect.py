"""How a CSV file is written: delimiter, decimal point, quote and encoding; guessed from its first lines, or given."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice

from remanence.errors import InputError

DELIMITERS = ",;\t|"
FIRST_ROWS = 50  # in which a decimal comma is looked for
COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
LONG = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The ways of writing a CSV file; None where the file itself tells."""

    delimiter: str | None = None
    decimal: str | None = None
    quote: str = '"'
    encoding: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "Dialect":
        """The dialect that options such as {"delimiter": ";"} stand for."""
        known = [field.name for field in fields(cls)]
        for name, value in options.items():
            if name not in known:
                raise InputError(f"expected an option of CSV files, one of {', '.join(known)}, got {name!r:.40}")
            value = LONG.get(value, value)
            if name != "encoding" and len(value.encode()) != 1 and not (name == "quote" and not value):
                raise InputError(f"expected one character as {name}, got {value!r:.40}")
            if name == "decimal" and value not in ".,":
                raise InputError(f"expected a point or a comma as decimal, got {value!r}")
            if name == "encoding":
                _check_encoding(value)
        return cls(**{name: LONG.get(value, value) for name, value in options.items()})

    def completed(self, header: str, sample: str) -> "Dialect":
        """With what is not given guessed from the header and the beginning of the rows, which may end anywhere."""
        bare = self._unquoted(header)
        delimiter = self.delimiter or max(DELIMITERS, key=bare.count)
        decimal = self.decimal or ("," if delimiter != "," and self._has_commas(sample, delimiter) else ".")
        if decimal == delimiter:
            raise InputError(f"expected a decimal that is not the delimiter, got {decimal!r} as both")
        return replace(self, delimiter=delimiter, decimal=decimal)

    def _unquoted(self, header: str) -> str:
        """The header without what is quoted: names may have delimiters in them."""
        quote = re.escape(self.quote)
        return re.sub(f"{quote}.*?{quote}", "", header, flags=re.DOTALL) if quote else header

    def _has_commas(self, sample: str, delimiter: str) -> bool:
        """Whether the numbers in the first rows have a decimal comma, and none has a point."""
        try:
            rows = list(islice(self._reader(io.StringIO(sample, newline=""), delimiter, strict=False), FIRST_ROWS))
        except csv.Error:  # (the rows themselves will say what is wrong)
            return False
        cells = [cell.strip() for row in rows for cell in row]
        return any(map(COMMA.fullmatch, cells)) and not any(map(POINT.fullmatch, cells))

    def cells(self, line: str, delimiter: str | None = None) -> list[str]:
        """The entries of one line; an InputError if its quotes do not match."""
        try:
            return next(self._reader([line.rstrip("\r\n")], delimiter or self.delimiter or ",", strict=True), [])
        except csv.Error as problem:
            raise InputError(f"its quotes do not match: {problem}") from None

    def _reader(self, lines: Iterable[str], delimiter: str, strict: bool) -> Iterator[list[str]]:
        return csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=strict,
        )

    def to_notes(self) -> dict[str, str]:
        """What differs from commas, points and UTF-8."""
        usual = {"delimiter": ",", "decimal": ".", "quote": '"', "encoding": "utf-8"}
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value not in (None, usual[name])}


def _check_encoding(name: str) -> None:
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # (refuses encodings that are none of text, such as base64)
    except (LookupError, ValueError):
        raise InputError(f"expected the name of an encoding like utf-8 or latin-1, got {name!r:.40}") from None
