"""Untrusted text: every output shows it as one short line of printable characters."""

import dataclasses
import json
import logging
import sys

import pytest
from rich.console import Console
from tiny_runs import TINY

from echelon import __main__
from echelon.arena.resolve import UnknownNameError
from echelon.learn.callbacks.progress import ConsoleHandler
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import METADATA, Counters, open_checkpoint
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime.errors import LONGEST_LINE, ConfigError, one_line, quoted, require
from echelon.runtime.files import FileError, parse_json
from echelon.runtime.tensor_files import parse_header
from echelon.runtime.terminal import show_table, terminal

pytestmark = pytest.mark.long

MANY = 1_000_000
TEXTS = {
    "escape codes": "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "line breaks": "first\nsecond\r\nthird\u2028fourth\x85fifth",
    "marks that turn the direction": "abc\u202egnp.exe\u2066",
    "backspaces": "wrong\b\b\b\b\bright",
    "a NUL": "name\0.png",
    "half a pair of surrogates": "x\ud800y",
    "an unassigned code": "x\U000e0001y",
    "a million letters": "a" * MANY,
    "a million escape codes": "\x1b" * MANY,
    "a million line breaks": "\n" * MANY,
}
ERRORS = (ConfigError, FileError, UnknownNameError)


def is_a_line(text):
    return text.isprintable() and len(text) <= LONGEST_LINE


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_one_printable_line(name, error):
    message = str(error(f"checkpoint.json: layout_hash must be 0123, got {TEXTS[name]}: use another Echelon"))
    assert is_a_line(message)
    assert message.startswith("checkpoint.json: layout_hash must be 0123, got ")
    assert message.endswith("use another Echelon") and str(error(message)) == message


VALUES = {
    **TEXTS,
    "a list of a million": [0] * MANY,
    "an object of many": {f"key {i}": i for i in range(10_000)},
    "a list in a list in a list": json.loads("[" * 900 + "]" * 900),
    "an integer of 400 digits": 10**400,
    "an integer of 5,000 digits": 10**5000,
    "a long key": {"k" * MANY: 1},
}


@pytest.mark.parametrize("name", VALUES)
def test_long_value_in_error_keeps_hint(name):
    with pytest.raises(ConfigError) as caught:
        require(False, "EnvConfig.blue", "1..20 hull names", VALUES[name])
    assert is_a_line(str(caught.value)) and len(str(caught.value)) < 300
    assert str(caught.value).startswith("EnvConfig.blue must be 1..20 hull names, got ")


def test_short_printable_text_is_unchanged():
    assert one_line("größer als 3 µs") == "größer als 3 µs"
    assert quoted("name") == "'name'" and quoted(0.1) == "0.1" and quoted(10**39) == str(10**39)
    assert quoted(-(10**400)) == "an integer of 1329 bits"
    assert quoted(("heavy", "light")) == "('heavy', 'light')" and quoted({"b": 1, "a": None}) == "{'a': None, 'b': 1}"


@pytest.mark.parametrize("name", TEXTS)
def test_output_contains_no_control_characters(name, capsys):
    show_table([{"name": TEXTS[name], "games": 3}], False, TEXTS[name])
    terminal().print(f"{TEXTS[name]}  {'a' * 64}")
    ConsoleHandler(Console()).emit(logging_record(TEXTS[name]))
    printed = capsys.readouterr().out
    assert all(is_a_line(line) for line in printed.split("\n")) and len(printed) < 12 * LONGEST_LINE


def logging_record(text):
    return logging.LogRecord("echelon", logging.WARNING, "", 0, "%s: trained under rules 1", (text,), None)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "kept"
    save_checkpoint(path, TINY.build(PolicySpecs(8)), ValueNorm(), EnvConfig.small(), Counters(), {})
    return path


CLAIMED = (
    "schema",
    "layout_hash",
    "written_by",
    "comm_dim",
    "files",
    "memory",
    "model",
    "env",
    "group_sizes",
    "counters",
)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("key", CLAIMED)
def test_checkpoint_metadata_is_printed_in_one_line(checkpoint, tmp_path, monkeypatch, capsys, name, key):
    """Insert the text directly, and as key and value of an object."""
    metadata, text = json.loads((checkpoint / METADATA).read_text()), TEXTS[name]
    for number, told in enumerate(
        (text, {text: text}, {**(metadata[key] if isinstance(metadata[key], dict) else {}), text: 1})
    ):
        path = tmp_path / str(number)
        path.mkdir()
        for file in checkpoint.iterdir():
            (path / file.name).write_bytes(file.read_bytes())
        (path / METADATA).write_text(json.dumps({**metadata, key: told}))
        monkeypatch.setattr(sys, "argv", ["echelon", "checkpoint", str(path)])
        with pytest.raises(SystemExit):
            __main__.program()
        out, err = capsys.readouterr()
        assert len(out + err) < 12 * LONGEST_LINE and all(is_a_line(line) for line in (out + err).split("\n"))
        try:
            found = open_checkpoint(path)
            _ = found.env, found.model, found.counters, found.policy()
        except FileError as error:
            assert is_a_line(str(error))


@pytest.mark.parametrize("name", TEXTS)
def test_unknown_setting_is_named_in_one_line(name):
    signature = EnvConfig.small().signature()
    for values in (
        {**signature, TEXTS[name]: 1},
        {**signature, "blue": [TEXTS[name]]},
        {**signature, "observation_mode": TEXTS[name]},
        {**signature, "world": {**signature["world"], "biomes": [TEXTS[name]]}},
        {**signature, "catalog": {**signature["catalog"], "hulls": {TEXTS[name]: {}}}},
    ):
        with pytest.raises(ConfigError) as caught:
            env_from_json(values)
        assert is_a_line(str(caught.value))


@pytest.mark.parametrize("name", TEXTS)
def test_file_key_is_printed_in_one_line(name):
    key = json.dumps(TEXTS[name])
    with pytest.raises(FileError, match="duplicate key ") as caught:
        parse_json("x.json", f"{{{key}: 1, {key}: 2}}".encode())
    assert is_a_line(str(caught.value))
    text = f'{{{key}: {{"dtype": {key}, "shape": [0], "data_offsets": [0, 0]}}}}'.encode()
    with pytest.raises(FileError) as caught:
        parse_header("x.safetensors", len(text).to_bytes(8, "little") + text, 8 + len(text))
    assert is_a_line(str(caught.value))


def test_settings_error_is_not_truncated():
    """The longest error about settings lists all valid choices."""
    with pytest.raises(ConfigError, match=r"chosen from \('urban_residential'.*'orbital_relay'\).*, got 'nowhere'$"):
        world = EnvConfig().world
        dataclasses.replace(world, biomes=("nowhere",))
