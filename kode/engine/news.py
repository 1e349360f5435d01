"""What changed of a session's beginning while it goes on: told at the end, because what was sent
stays as it was."""

import difflib
from collections.abc import Mapping

from kode.session.entries import SectionUpdateEntry

HEADINGS = {
    "given": "# Your instructions have changed since this session began",
    "appended": "# Further instructions have changed since this session began",
    "servers": "# The MCP servers have changed since this session began: see mcp_search",
}
"""Sections whose changes the model is told. Kode's own text may differ in another version; a
session keeps the one that it began with. Memory tells its own changes."""


def news_of(
    now: Mapping[str, str], known: Mapping[str, str]
) -> tuple[tuple[SectionUpdateEntry, str], ...]:
    """For each section that differs from what the model knows: the record of the new text, and the
    words for the model. Both map a section's name to its text. Instructions that are not given
    again still hold."""
    return tuple(
        (SectionUpdateEntry(section=name, text=text), told(name, known.get(name, ""), text))
        for name in HEADINGS
        if _lines(text := now.get(name, "")) != _lines(known.get(name, ""))
        and (text or name == "servers")
    )


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def told(name: str, before: str, after: str) -> str:
    """The lines of a section that are new, and those that are gone; all of it where that is
    shorter."""
    if not after:
        return f"{HEADINGS[name]}\nThere is nothing in it any more."
    old, new = _lines(before), _lines(after)
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    added = [line for kind, _, _, i, j in steps if kind != "equal" for line in new[i:j]]
    gone = [line for kind, i, j, _, _ in steps if kind != "equal" for line in old[i:j]]
    pieces = [HEADINGS[name]]
    pieces += ["\n".join(["New:", *added])] if added else []
    pieces += ["\n".join(["No longer there:", *gone])] if gone else []
    changed, whole = "\n".join(pieces), f"{HEADINGS[name]}\n{after}"
    return changed if before and len(changed) < len(whole) else whole
