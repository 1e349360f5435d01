"""Lists of bundles: `.claude-plugin/marketplace.json`, as
https://code.claude.com/docs/en/plugin-marketplaces describes it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kode.plugin import ConfigError, object_of, visible

LIST = ".claude-plugin/marketplace.json"
MAX_BYTES = 4 * 1024 * 1024
"""Limit of a list; the largest public ones have some hundred kilobytes."""
MAX_TEXT = 200  # characters of a description: two lines

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A bundle that a list names."""

    name: str
    description: str
    source: Any
    """A path below the list's folder, or an object that says where it is."""
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Market:
    name: str
    root: str
    """The folder that paths are below, in the list's own."""
    entries: tuple[Entry, ...]
    faults: tuple[str, ...] = ()
    """A sentence for each entry that cannot be used."""


def read(data: bytes, where: str) -> Market:
    """Raises: ConfigError for what is no list."""
    found = object_of(data)
    if found is None or not isinstance(found.get("plugins"), list):
        raise ConfigError(
            f"{visible(where)} holds no list of bundles: a JSON object with `plugins`."
        )
    name = found.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"The marketplace calls itself {visible(str(name))[:80]!r}: a name has up to 64 "
            "letters, digits, `-`, `.` and `_`."
        )
    about = found.get("metadata")
    root = about.get("pluginRoot", "") if isinstance(about, dict) else ""
    entries: dict[str, Entry] = {}
    faults = []
    for one in found["plugins"]:
        values = one if isinstance(one, dict) else {}
        called, source = values.get("name"), values.get("source")
        if (
            not isinstance(called, str)
            or not _NAME.fullmatch(called)
            or not isinstance(source, str | dict)
            or called in entries
        ):
            faults.append(
                f"{name}: the entry {visible(str(called))[:80]!r} was left out: it needs a name of "
                "its own that can be typed, and a `source`."
            )
            continue
        description = values.get("description", "")
        entries[called] = Entry(
            name=called,
            description=" ".join(str(description).split())[:MAX_TEXT],
            source=source,
            values=values,
        )
    return Market(
        name=name,
        root=root if isinstance(root, str) else "",
        entries=tuple(entries.values()),
        faults=tuple(faults),
    )
