"""Templates, and how values are formatted: times, tokens, dollars.

Every value in a template goes through `show_value` and is then escaped: texts of a session, a file
or the web can hold markup, scripts, control characters and marks that reverse a line, all of which
are displayed as text.
"""

import functools
import os
import re
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kode.plugin import money, plural, subagent_records

OWN = "kode.plugins.view"

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Controls, marks that reorder text, and zero-width characters: what hides in a text."""


def show_value(value: Any) -> Any:
    """A value as a template displays it, before it is escaped."""
    if isinstance(value, Markup):
        return value
    text = str(value).replace("\r\n", "\n")
    return (
        _UNSEEN.sub(lambda unseen: f"⟨U+{ord(unseen[0]):04X}⟩", text)
        .encode("utf-8", "replace")
        .decode()
    )


def page(template: str, /, **values: Any) -> str:
    """A page with links to others of the server, and to its stylesheet."""
    return _environment().get_template(template).render(**values)


def stylesheet() -> str:
    return resources.files(OWN).joinpath("style.css").read_text("utf-8")


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(OWN),
        autoescape=True,
        finalize=show_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"agents_in": subagent_records}
    environment.filters |= {
        "when": when,
        "dollars": lambda amount: money(amount) or "unknown",
        "number": "{:,.0f}".format,
        "plural": plural,
        "seconds": seconds,
        "folder": folder,
    }
    return environment


def folder(path: Path | str) -> str:
    """A path, with `~` for the person's home folder."""
    home = os.environ.get("HOME", "").rstrip("/")
    is_inside = bool(home) and f"{path}/".startswith(f"{home}/")
    return f"~{str(path).removeprefix(home)}" if is_inside else str(path)


def when(at: str) -> str:
    """A time in local time, to the minute."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return at or "unknown"


def seconds(duration_ms: int) -> str:
    whole = duration_ms / 1000
    return f"{whole:.1f} s" if whole < 60 else f"{int(whole // 60)} min {int(whole % 60)} s"
