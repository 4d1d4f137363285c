"""JSON files of one object that holds tables, long lists of rows, beside short values: read and written row by row.

Memory is bounded by the longest value that a file may hold, whatever its size; a file that is not as it should be is
refused where that shows.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from echelon.runtime.files import MAX_JSON_BYTES, FileError, StrictDecoder, check_depth

CHUNK_BYTES = 1 << 20
"""Read at once."""
LONGEST_ROW = 1 << 20
"""Letters of a row. A league's longest value has 65536 letters, of at most 12 in JSON."""
LONGEST_KEY = 1000
MOST_KEYS = 100
"""Keys of the object, tables included."""
INK = re.compile(r"[^ \t\n\r]")
"""What is no white space of JSON."""


def read_tables(
    name: str, file: BinaryIO, limit: int, tables: Collection[str], only_finite: bool = True
) -> Iterator[tuple[str, int | None, Any]]:
    """Read a file whose JSON object has tables, of objects or whatever else, under some of its keys.

    Duplicate keys, depth and numbers are held to the limits of `parse_json`. The tables stand in any order, and with
    any white space. All other values together have at most `MAX_JSON_BYTES` letters, a row has `LONGEST_ROW`.

    Args:
        name, file, limit, only_finite: as of `JsonText`.

    Yields:
        Key, number and row of each row of a table, in the order of the file. What is no row has None as its number:
        key and value of all else, and key and `[]` where a table begins.
    """
    text = JsonText(name, file, limit, only_finite)
    if text.peek() != "{":
        raise FileError(f"{name}: expected an object, got {type(text.value(name, MAX_JSON_BYTES)).__name__}")
    seen: set[str] = set()
    budget = MAX_JSON_BYTES
    for _ in text.members("{", "}"):
        key = text.key()
        if key in seen:
            raise FileError(f"{name}: key {key!r} stands there twice, expected once")
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
    """The text of a JSON file, of which no more is kept than the value that is read.

    Args:
        limit: bytes that it may have.
        only_finite: whether NaN and infinities are refused.
    """

    def __init__(self, name: str, file: BinaryIO, limit: int, only_finite: bool) -> None:
        self.name, self.file, self.limit, self.bytes_read = name, file, limit, 0
        self.json = StrictDecoder(name, only_finite)
        self.codec: codecs.IncrementalDecoder | None = None
        self.text, self.at, self.dropped, self.is_whole = "", 0, 0, False

    @property
    def position(self) -> int:
        """Letters before the next one."""
        return self.dropped + self.at

    def invalid(self, why: str, at: int | None = None) -> FileError:
        """The error that says what is wrong at a letter, by default the next one."""
        position = self.position if at is None else at
        return FileError(f"{self.name}: not valid JSON: {why} at letter {position}")

    def peek(self) -> str:
        """The next letter that is no white space, or nothing at the end of the file; it is not passed."""
        while True:
            match = INK.search(self.text, self.at)
            if match is not None:
                self.at = match.start()
                return match[0]
            self.at = len(self.text)
            if not self._read_on(CHUNK_BYTES):
                return ""

    def pass_one(self, *expected: str) -> str:
        """Pass the next letter that is no white space."""
        letter = self.peek()
        if letter not in expected:
            raise self.invalid(f"expected {' or '.join(map(repr, expected))}, got {letter!r}")
        self.at += 1
        return letter

    def members(self, opening: str, closing: str) -> Iterator[None]:
        """Go through an object or a list: at each step the next member is to be read, all of it."""
        self.pass_one(opening)
        if self.peek() == closing:
            self.pass_one(closing)
            return
        yield
        while self.pass_one(",", closing) == ",":
            yield

    def key(self) -> str:
        """Read a key and the colon behind it."""
        if self.peek() != '"':
            raise self.invalid("expected a key in quotes")
        text = str(self.value(f"{self.name}: a key", LONGEST_KEY))
        self.pass_one(":")
        return text

    def value(self, where: str, longest: int) -> Any:
        """Read a value of at most `longest` letters."""
        self.peek()
        self.json.where = where
        while True:
            problem: ValueError | RecursionError | None = None
            end = len(self.text)
            try:
                result, end = self.json.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                problem = error
            # What ends with the text that was read, or is wrong there, may go on behind it.
            # So may a number before what is left of its fraction or exponent.
            is_complete = problem is None and self.text[end:].lstrip(".eE+-") != ""
            if is_complete or len(self.text) - self.at > longest:
                break
            # All that it may be, so that it is decoded twice at most.
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
        """Read so many bytes more, and drop the text that was passed. False at the end of the file."""
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
    """The pieces of a file of these values and tables: together they are what `json_bytes` makes of such an object.

    Args:
        values: what is no table, in the order of the file.
        tables: rows by key, which follow. A row is an object of at least one value, none of them a list or an object.
    """
    gap = "{\n "
    for key, value in values.items():
        indented = json.dumps(value, indent=1).replace("\n", "\n ")
        yield f"{gap}{json.dumps(key)}: {indented}".encode()
        gap = ",\n "
    # The indentation of Python's encoder is many times slower than a separator that is one.
    encoder = json.JSONEncoder(separators=(",\n   ", ": "))
    for key, rows in tables.items():
        yield f"{gap}{json.dumps(key)}: ".encode()
        gap, separator = ",\n ", "[\n"
        for row in rows:
            yield f"{separator}  {{\n   {encoder.encode(row)[1:-1]}\n  }}".encode()
            separator = ",\n"
        yield b"[]" if separator == "[\n" else b"\n ]"
    yield b"\n}\n"
