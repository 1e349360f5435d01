"""The vault as texts that can be found: facts one by one, episodes as they follow each other.

Not here: ranking (`kode.memory.rank`).
"""

import re
from collections.abc import Iterable
from datetime import datetime, tzinfo

from kode.memory import when
from kode.memory.rank import Text
from kode.memory.vault.names import is_episodes
from kode.memory.vault.summary import blocks_of

_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2})?\b")


def texts_of(files: Iterable[tuple[str, str]], zone: tzinfo | None) -> list[Text]:
    """The parts of files, given as names with their texts; dates in them are of this zone."""
    found: list[Text] = []
    for name, text in files:
        episodes = is_episodes(name)
        for block in blocks_of(text):
            at = _time_of(block, zone) if episodes else ""
            found.append(Text(name, block, at, row=name if episodes else ""))
    return found


def _time_of(block: str, zone: tzinfo | None) -> str:
    """When an episode was, by the first date that stands in it."""
    for match in _DATE.finditer(block):
        try:
            return when.stamp(datetime.fromisoformat(match[0]).replace(tzinfo=zone))
        except (ValueError, OverflowError):
            continue
    return ""
