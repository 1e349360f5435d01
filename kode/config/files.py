"""Reads and writes config files; `model.py` defines their keys. Also guards the folder of the
person's own: whoever can write there decides what kode runs."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from kode import durable
from kode.errors import ConfigError

MAX_FILE_BYTES = 1_000_000  # a config is far smaller: this is some other file
MAX_DEPTH = 20
"""Depth of nested sections: many times what any key needs."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def read_document(path: Path) -> dict[str, Any]:
    """What a config file holds; {} if it does not exist. Raises: ConfigError that names the place
    and what to do."""
    text = read_text(path)
    return {} if text is None else decode(text, path)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a config file, which keeps its mode; a new one only its owner can read. Raises:
    StorageError."""
    durable.make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    durable.replace(path, text.encode(), mode=mode)


def read_text(path: Path) -> str | None:
    """The text of a config file; None if it does not exist. Raises: ConfigError."""

    def without_waiting(path: str, flags: int) -> int:
        # An unpacked archive may contain a pipe of that name, which nobody writes to.
        return os.open(path, flags | os.O_NONBLOCK)

    try:
        with open(path, "rb", opener=without_waiting) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than 1 MB. A config must be smaller.")
        return data.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. It must be a file that you can read."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from None


def decode(text: str, path: Path) -> dict[str, Any]:
    """What the text of a config file holds. Raises: ConfigError."""

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
    return values


def _is_flat_enough(value: Any, depth: int = MAX_DEPTH) -> bool:
    if not isinstance(value, dict | list):
        return True
    inside = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_flat_enough(item, depth - 1) for item in inside)


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
