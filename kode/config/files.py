"""Reads and writes config files, whose keys `model.py` defines, and reads Claude Code's settings as
far as kode has equivalents. Also guards the person's config folder: whoever can write there decides
what kode runs.

Of those settings, `deny` and `ask` rules count as if the person's own config had them, since they
only make it stricter; `allow` rules do not count.
https://docs.claude.com/en/docs/claude-code/settings describes their keys.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jiter

from kode import durable, paths
from kode.errors import ConfigError, Setting
from kode.permissions.names import translate_rule

MAX_FILE_BYTES = 1_000_000  # a config is far smaller: this is some other file
FILES = (".claude/settings.local.json", ".claude/settings.json")
"""Settings of Claude Code below a project or a home."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_PATH = re.compile(r"^((?:Edit|Glob|Grep|LS|MultiEdit|NotebookEdit|Read|Write)\()(?:(/)/|\.?/)")
"""In Claude Code's rules `//a` is absolute, and `/a` and `./a` are relative to the project."""


def read_document(path: Path) -> dict[str, Any]:
    """Reads a config file; {} if it does not exist. Raises: ConfigError that names the place and
    what to do."""
    text = read_text(path)
    return {} if text is None else parse_document(text, path)


def read_flag_document(text: str, flag: str, cwd: Path) -> tuple[dict[str, Any], Path]:
    """Reads a flag's value, JSON or the path of a file with it; returns the content and its origin,
    the file or the flag. Raises: ConfigError."""
    if text.lstrip().startswith("{"):
        return parse_document(text, Path(flag)), Path(flag)
    path = cwd / paths.expand_path(text)
    if not path.is_file():
        fault = ConfigError(f"{flag} {path}: it is no file. Give a file, or JSON in quotes.")
        raise fault.about(Setting(flag.removeprefix("--"), flag))
    return read_document(path), path


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a config file, which keeps its mode; only its owner can read a new one. Raises:
    StorageError."""
    durable.make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    durable.replace_file(path, text.encode(), mode=mode)


def read_text(path: Path) -> str | None:
    """The text of a config file; None if it does not exist. Raises: ConfigError."""
    try:
        # An unpacked archive may contain a pipe of that name, which nobody writes to.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
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
        fault = f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        raise ConfigError(fault) from None


def parse_document(text: str, path: Path) -> dict[str, Any]:
    """Parses the text of a config file; blank text is {}. Raises: ConfigError."""
    data = (text if text.strip() else "{}").encode()
    try:
        values = jiter.from_json(data, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise ConfigError(
            f"{path} is not JSON: {error}. Fix it there: JSON has no comments, no comma before `]` "
            "or `}`, and each key once."
        ) from None
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path} holds {json.dumps(values)[:40]}; a config is one JSON object: {{...}}."
        )
    return values


def resolve_inside(path: Path, *folders: Path) -> Path:
    """Resolves a path. Raises: ConfigError if it leads out of any one of these folders."""
    real = Path(paths.real_path(path))
    for folder in folders:
        if not real.is_relative_to(paths.real_path(folder)):
            raise ConfigError(f"{path} links out of {folder}: replace the link with a copy.")
    return real


def project_folders(cwd: Path) -> list[Path]:
    """The folders from `cwd` up to the repository's root; outside a repository only `cwd`."""
    start, top = Path(paths.real_path(cwd)), paths.project_root(cwd)
    return [folder for folder in (start, *start.parents) if folder.is_relative_to(top)]


def restrict_home(home: Path) -> str:
    """Lets nobody else write in `home`; returns a sentence if somebody could, else "".

    Raises: ConfigError where the folder, or a file or folder in it, belongs to another user than
        this one and root, or where others can write and it cannot be changed.
    """
    try:
        mode, owners = home.stat().st_mode, (os.geteuid(), 0)
        entries = (Path(paths.real_path(home)), *home.iterdir())
        strangers = [path for path in entries if path.lstat().st_uid not in owners]
    except OSError:
        return ""  # missing, or no folder: whoever needs it says so
    if strangers:
        raise ConfigError(
            f"{strangers[0]} belongs to another user, who could have kode run anything: nothing in "
            f"{home} is used. Take it over (`chown`) or delete it once you have looked through it, "
            "or set KODE_HOME to a folder of your own."
        )
    if not mode & OTHERS_WRITE:
        return ""
    try:
        home.chmod(stat.S_IMODE(mode) & ~OTHERS_WRITE)
    except OSError as error:
        raise ConfigError(
            f"Others can write in {home}, and its mode cannot be changed ({error.strerror}). Set "
            "KODE_HOME to a folder of your own."
        ) from None
    return (
        f"Others could write in {home}; now only you can. If it was not you who allowed that, "
        "look through config.json and `kode extensions trust list`."
    )


# ── settings of Claude Code ──────────────────────────────────────────────────────────────────


def find_foreign_settings(
    cwd: Path, named: str | None
) -> tuple[list[tuple[str, list[str], Path]], tuple[str, ...]]:
    """Reads Claude Code's settings: `named` (by `--settings`: a file or JSON), then the project's
    files, the nearest first, then those of the person's home. Returns for each (`deny` or `ask`,
    its rules in kode's words, the file), and sentences about what kode does not use.

    Raises: ConfigError for `named` alone.
    """
    documents = [read_flag_document(named, "--settings", cwd)] if named else []
    home, remarks = Path(paths.real_path(paths.user_home() or paths.NO_HOME)), list[str]()
    for folder in (*(it for it in project_folders(cwd) if it != home), home):
        for path in (folder / name for name in FILES if os.path.isfile(folder / name)):
            try:
                documents.append((read_document(resolve_inside(path, folder)), path))
                documents[-1][0].pop("hooks", None)  # `kode.extensions.hooks` reads them
            except ConfigError as error:
                remarks.append(str(error))
    rules: list[tuple[str, list[str], Path]] = []
    for document, path in documents:
        permissions = document.get("permissions")
        permissions = dict(permissions) if isinstance(permissions, dict) else {}
        unused = [key for key in document if key not in ("$schema", "permissions")]
        for kind in ("deny", "ask"):
            texts = permissions.pop(kind, [])
            texts = texts if isinstance(texts, list) else ()
            pairs = [(text, _translate(text)) for text in texts]
            rules.append((kind, [rule for _, rule in pairs if rule], path))
            unused += [f"permissions.{kind}: {text}" for text, rule in pairs if not rule]
        unused += [f"permissions.{key}" for key in permissions]
        remarks += [f"{path}: {', '.join(unused)}"] if unused else []
    return rules, tuple(remarks)


def _translate(rule: Any) -> str:
    """A rule of Claude Code in kode's words; "" for one that kode cannot express."""
    return translate_rule(_PATH.sub(r"\1\2", rule.strip())) if isinstance(rule, str) else ""
