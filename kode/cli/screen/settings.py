"""The settings as lines for people: every key, its value, and where that came from."""

import json
from typing import TYPE_CHECKING

from kode.cli.screen.lines import one_line

if TYPE_CHECKING:
    from kode.config import Loaded


def settings_lines(loaded: "Loaded", beginning: str = "") -> list[str]:
    """A line a key that begins with `beginning`; secrets are masked."""
    from kode.config import flat, shown

    values = {
        key: shown(key, value)
        for key, value in flat(loaded.config).items()
        if key.startswith(beginning)
    }
    width = max(map(len, values), default=0)
    lines = []
    for key, value in values.items():
        text = one_line(json.dumps(value, ensure_ascii=False))
        origin = loaded.origins[key]
        lines.append(f"{key:<{width}}  {text}" + ("" if origin == "default" else f"  ({origin})"))
    return lines
