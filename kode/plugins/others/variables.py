"""Variables that a settings file gives to commands."""

from collections.abc import Mapping
from typing import Any

from kode.plugin import credentials


def for_commands(key: str, given: Any) -> tuple[dict[str, str], Mapping[str, str]]:
    """The variables of an object under `key`, and why others are left out. A secret is: commands
    get none unasked."""
    kept, left = dict[str, str](), dict[str, str]()
    for name, value in given.items() if isinstance(given, dict) else ():
        if not isinstance(value, str) or "\0" in value or "=" in name or not name:
            left[f"{key}.{name}"] = "it is no text"
        elif credentials.redact(line := f"{name}={value}") != line:
            left[f"{key}.{name}"] = (
                "it looks like a secret: set it in your own environment, and for commands name it "
                "in `shell.environment`"
            )
        else:
            kept[name] = value
    return kept, left
