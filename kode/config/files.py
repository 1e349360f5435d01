"""Reads a config file: decodes it, finds the line of each key, replaces `${VAR}`. `model.py`
defines the keys. Also guards the folder of the person's own: whoever can write there decides what
kode runs."""

import copy
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from kode import durable
from kode.errors import ConfigError

MAX_FILE_BYTES = 1_000_000  # a config is far smaller: this is some other file
MAX_DEPTH = 20
"""Depth of nested sections: many times what any key needs."""

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HALF_A_CHARACTER = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One source of settings."""

    values: Mapping[str, Any]
    """Nested, as in a config file."""
    places: Mapping[str, str]
    """Dotted key → the name of its place: `FILE:LINE`, a variable, a flag."""


def read_layer(path: Path) -> Layer | None:
    """The settings of a file; None if it does not exist.

    Raises: ConfigError that names the place and what to do.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. It must be a file that you can read."
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than 1 MB. A config must be smaller.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from None
    values = _decode(text, path)
    return Layer(values=values, places={k: f"{path}:{n}" for k, n in _lines(text, values).items()})


def _without_waiting(path: str, flags: int) -> int:
    """Opens without waiting: an unpacked archive may contain a pipe of that name, which nobody
    writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_document(path: Path) -> dict[str, Any]:
    """What a config file holds, to be changed and written again; {} if it does not exist. Raises:
    ConfigError."""
    layer = read_layer(path)
    return copy.deepcopy(dict(layer.values)) if layer is not None else {}


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a config file, which keeps its mode; a new one only its owner can read. Raises:
    StorageError."""
    durable.make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    durable.replace(path, text.encode(), mode=mode)


def expand_variables(layer: Layer, environ: Mapping[str, str] | None, path: Path) -> Layer:
    """The layer with `${VAR}` in string values replaced from the environment; None for a file from
    a repository, which gets no variables: a name does not show what it holds, and the value would
    end up in requests, logs and on the screen.

    Raises: ConfigError for a variable that is not set or may not be used.
    """

    def expand(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: expand(item, _dotted(key, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [expand(item, key) for item in value]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            name = match.group(1)
            where = layer.places.get(key, str(path))
            if environ is None:
                raise ConfigError(
                    f"{where}: `{key}` uses ${{{name}}}, and a project's file reads no variables. "
                    "Write the value, or set the key in your own config."
                )
            if name not in environ:
                raise ConfigError(
                    f"{where}: `{key}` uses ${{{name}}}, which is not set. Set {name} in the "
                    "environment, or write the value itself."
                )
            return environ[name]

        return _VARIABLE.sub(variable, value)

    return replace(layer, values=expand(dict(layer.values), ""))


def _decode(text: str, path: Path) -> dict[str, Any]:
    def no_constant(name: str) -> NoReturn:
        raise ConfigError(f"{path} uses {name}, which is not JSON. Write a number.")

    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"{path} has the key `{twice}` twice in one section. Keep one.")
        return values

    try:
        values = json.loads(
            text if text.strip() else "{}",
            parse_constant=no_constant,
            object_pairs_hook=without_doubles,
        )
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}:{error.colno} is not JSON: {error.msg}. Fix it there: JSON has "
            "no comments, and no comma before `]` or `}`."
        ) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{path} is not a config: {error}. Fix it.") from None
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path} holds {json.dumps(values)[:40]}; a config is one JSON object: {{...}}."
        )
    if not _is_flat_enough(values):
        raise ConfigError(f"{path} is nested too deeply for a config. Fix it.")
    half = _HALF_A_CHARACTER.search(json.dumps(values, ensure_ascii=False))
    if half is not None:
        raise ConfigError(
            f"{path} holds half of a character (\\u{ord(half[0]):04x}). Write the full character."
        )
    return values


def _is_flat_enough(value: Any, depth: int = MAX_DEPTH) -> bool:
    if not isinstance(value, dict | list):
        return True
    inside = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_flat_enough(item, depth - 1) for item in inside)


def _lines(text: str, values: Mapping[str, Any]) -> dict[str, int]:
    """Dotted key → its line, found in the order of the text, which JSON keeps."""
    lines: dict[str, int] = {}
    position = 0

    def walk(section: Mapping[str, Any], prefix: str) -> None:
        nonlocal position
        for key, value in section.items():
            quoted = re.escape(json.dumps(key, ensure_ascii=False))
            match = re.compile(quoted + r"\s*:").search(text, position)
            if match is not None:
                position = match.start() + 1
            lines[_dotted(prefix, key)] = text.count("\n", 0, position) + 1
            if isinstance(value, dict):
                walk(value, _dotted(prefix, key))

    walk(values, "")
    return lines


def _dotted(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def guard_home(home: Path) -> str:
    """Lets nobody else write in `home`; returns a sentence if somebody could, else "".

    Raises: ConfigError where the folder, or a file or folder in it, belongs to another user than
        this one and root, or where others can write and it cannot be changed.
    """
    try:
        status = home.stat()
        owners = {home: status.st_uid}
        with os.scandir(home) as entries:
            owners |= {
                home / entry.name: entry.stat(follow_symlinks=False).st_uid for entry in entries
            }
    except OSError:
        return ""  # missing, or no folder: whoever needs it says so
    for path, uid in owners.items():
        if uid not in (os.geteuid(), 0):
            raise ConfigError(
                f"{path} belongs to another user (uid {uid}), who could have kode run anything: "
                f"nothing in {home} is used. Take it over (`chown`) or delete it once you have "
                "looked through it, or set KODE_HOME to a folder of your own."
            )
    if not status.st_mode & OTHERS_WRITE:
        return ""
    try:
        home.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS_WRITE)
    except OSError as error:
        raise ConfigError(
            f"Others can write in {home}, and its mode cannot be changed ({error.strerror}). Set "
            "KODE_HOME to a folder of your own."
        ) from None
    return (
        f"Others could write in {home}; now only you can. If it was not you who allowed that, "
        "look through config.json and `kode extensions trust list`."
    )
