"""Read and write large JSON files row by row. Each file is one object with tables (long lists of rows) and short
values.

The memory use is bounded by the longest allowed value, not by the size of the file. An invalid value raises an error as
soon as it is read.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from echelon.runtime.files import MAX_JSON_BYTES, FileError, StrictDecoder, check_depth

CHUNK_BYTES = 1 << 20
"""Bytes per read."""
LONGEST_ROW = 1 << 20
"""Maximum number of characters of a row. The longest value of a league has 65536, with at most 12 each in JSON."""
LONGEST_KEY = 1000
MOST_KEYS = 100
"""Maximum number of keys of the object, including tables."""
INK = re.compile(r"[^ \t\n\r]")
"""Characters other than JSON white space."""


def read_tables(
    name: str, file: BinaryIO, limit: int, tables: Collection[str], only_finite: bool = True
) -> Iterator[tuple[str, int | None, Any]]:
    """Read a JSON object that has tables under some of its keys.

    The limits of nesting, numbers and duplicate keys are those of `parse_json`. Tables may come in any order, with any
    white space. A row has at most `LONGEST_ROW` characters; all values outside tables together have at most
    `MAX_JSON_BYTES`.

    Args:
        name, file, limit, only_finite: as in `JsonText`.
        tables: keys of the tables.

    Yields:
        Tuples in the order of the file: (key, index, row) for each row of a table, (key, None, `[]`) at the start of a
        table, and (key, None, value) for other keys.

    Raises:
        FileError: if the file is invalid or exceeds a limit.
    """
    text = JsonText(name, file, limit, only_finite)
    if text.peek() != "{":
        raise FileError(f"{name}: expected an object, got {type(text.value(name, MAX_JSON_BYTES)).__name__}")
    seen: set[str] = set()
    budget = MAX_JSON_BYTES
    for _ in text.members("{", "}"):
        key = text.key()
        if key in seen:
            raise FileError(f"{name}: duplicate key {key!r}")
        seen.add(key)
        if len(seen) > MOST_KEYS:
            raise FileError(f"{name}: expected at most {MOST_KEYS} keys, got more")
        if key not in tables:
            start = text.position
            yield key, None, text.value(f"{name}: {key}", budget)
            budget -= text.position - start
            continue
        if text.peek() != "[":
            rows = text.value(f"{name}: {key}", LONGEST_ROW)
            raise FileError(f"{name}: {key} must be a list, got {type(rows).__name__}")
        yield key, None, []
        for i, _ in enumerate(text.members("[", "]")):
            yield key, i, text.value(f"{name}: {key}[{i}]", LONGEST_ROW)
    if text.peek():
        raise text.invalid("expected the end of the file")


class JsonText:
    """The text of a JSON file. Only the current value is kept in memory.

    Args:
        name: name of the file, for errors.
        file: the open file.
        limit: maximum size of the file, bytes.
        only_finite: whether NaN and infinity are errors.
    """

    def __init__(self, name: str, file: BinaryIO, limit: int, only_finite: bool) -> None:
        self.name, self.file, self.limit, self.bytes_read = name, file, limit, 0
        self.json = StrictDecoder(name, only_finite)
        self.codec: codecs.IncrementalDecoder | None = None
        self.text, self.at, self.dropped, self.is_whole = "", 0, 0, False

    @property
    def position(self) -> int:
        """Number of characters before the next character to read."""
        return self.dropped + self.at

    def invalid(self, why: str, at: int | None = None) -> FileError:
        """Return an error about the character at a position, by default the next character."""
        position = self.position if at is None else at
        return FileError(f"{self.name}: not valid JSON: {why} at letter {position}")

    def peek(self) -> str:
        """Return the next character that is not white space, without consuming it; empty at the end of the file."""
        while True:
            match = INK.search(self.text, self.at)
            if match is not None:
                self.at = match.start()
                return match[0]
            self.at = len(self.text)
            if not self._read_on(CHUNK_BYTES):
                return ""

    def pass_one(self, *expected: str) -> str:
        """Consume the next character that is not white space, which must be one of `expected`."""
        letter = self.peek()
        if letter not in expected:
            raise self.invalid(f"expected {' or '.join(map(repr, expected))}, got {letter!r}")
        self.at += 1
        return letter

    def members(self, opening: str, closing: str) -> Iterator[None]:
        """Iterate over the members of a JSON object or list. The caller must read one complete member in each step of
        the iteration."""
        self.pass_one(opening)
        if self.peek() == closing:
            self.pass_one(closing)
            return
        yield
        while self.pass_one(",", closing) == ",":
            yield

    def key(self) -> str:
        """Read a key and the colon after it."""
        if self.peek() != '"':
            raise self.invalid("expected a key in quotes")
        text = str(self.value(f"{self.name}: a key", LONGEST_KEY))
        self.pass_one(":")
        return text

    def value(self, where: str, longest: int) -> Any:
        """Read a value of at most `longest` characters."""
        self.peek()
        self.json.where = where
        while True:
            problem: ValueError | RecursionError | None = None
            end = len(self.text)
            try:
                result, end = self.json.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                problem = error
            # A value or an error at the end of the buffer may be incomplete, because the file is not read to its end.
            # A number at the end of the buffer may lack its fraction or exponent.
            is_complete = problem is None and self.text[end:].lstrip(".eE+-") != ""
            if is_complete or len(self.text) - self.at > longest:
                break
            # Read on to the maximum length at once, so that a value is decoded at most twice.
            if not self._read_on(longest + 1 - len(self.text) + self.at):
                break
        if problem is not None:
            raise self._refusal(where, longest, problem) from None
        if end - self.at > longest:
            raise FileError(f"{where} must be at most {longest} letters of JSON, got more")
        check_depth(where, result)
        self.at = end
        return result

    def _refusal(self, where: str, longest: int, problem: ValueError | RecursionError) -> FileError:
        if isinstance(problem, FileError):
            return problem
        if isinstance(problem, json.JSONDecodeError):
            fault = "not valid JSON" if self.is_whole else f"not valid JSON, or more than {longest} letters of it"
            return FileError(f"{where}: {fault}: {problem.msg} at letter {self.dropped + problem.pos}")
        return FileError(f"{where}: not valid JSON: {problem}")

    def _read_on(self, amount: int) -> bool:
        """Read `amount` more bytes, and drop the consumed text. Returns False at the end of the file."""
        if self.is_whole:
            return False
        data = self.file.read(amount)
        self.bytes_read += len(data)
        if self.bytes_read > self.limit:
            raise FileError(f"{self.name}: expected at most {self.limit} bytes, got more")
        if self.codec is None:
            self.codec = codecs.getincrementaldecoder(json.detect_encoding(data))("surrogatepass")
        self.is_whole = not data
        try:
            more = self.codec.decode(data, final=self.is_whole)
        except UnicodeError as error:
            raise self.invalid(f"{error}", self.dropped + len(self.text)) from None
        self.dropped += self.at
        self.text, self.at = self.text[self.at :] + more, 0
        return not self.is_whole or more != ""


def table_bytes(values: Mapping[str, Any], tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[bytes]:
    """Yield the chunks of a JSON file. The chunks together equal `json_bytes` of the object.

    Args:
        values: values outside tables, in the order of the file.
        tables: rows of each table, keyed by name, which follow the values. A row is a non-empty object without lists
            and objects.
    """
    gap = "{\n "
    for key, value in values.items():
        indented = json.dumps(value, indent=1).replace("\n", "\n ")
        yield f"{gap}{json.dumps(key)}: {indented}".encode()
        gap = ",\n "
    # Put the indentation into the separator: indentation by Python's encoder is many times slower.
    encoder = json.JSONEncoder(separators=(",\n   ", ": "))
    for key, rows in tables.items():
        yield f"{gap}{json.dumps(key)}: ".encode()
        gap, separator = ",\n ", "[\n"
        for row in rows:
            yield f"{separator}  {{\n   {encoder.encode(row)[1:-1]}\n  }}".encode()
            separator = ",\n"
        yield b"[]" if separator == "[\n" else b"\n ]"
    yield b"\n}\n"
