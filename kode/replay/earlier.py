"""Results of sessions whose kode did not yet store refusals and ends as values.

What such a file holds is fixed: these are the words as it has them, whatever today's are.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from kode.messages import Cut, Refusal, Text, ToolResult
from kode.session.entries import AnyEntry, MessageEntry

_ENDS: dict[str, Cut] = {
    "[Interrupted before it finished; its effect is unknown. Check before you repeat it.]": (
        "interrupted"
    ),
    "[Not run: the person interrupted the turn.]": "not_run",
}
_BY_PERSON = "The person refused this."
_BY_NOBODY = "obody is here to be asked"
_MESSAGE = re.compile(r'They say: "(.*?)"\. Do not try', re.DOTALL)


def stores_values(entries: Iterable[AnyEntry]) -> bool:
    """Whether the session's kode stored them: it also named the sections of the opening."""
    return any(
        isinstance(part, Text) and part.section_name
        for entry in entries
        if isinstance(entry, MessageEntry)
        for part in entry.parts
    )


def with_values(result: ToolResult) -> ToolResult:
    """A result of such a session with what its words say."""
    text = result.text
    if result.refusals or result.cut or text in _ENDS:
        return replace(result, cut=result.cut or _ENDS.get(text, ""))
    refusals = []
    if _BY_PERSON in text if not result.is_error else text.startswith(_BY_PERSON):
        said = _MESSAGE.search(text)
        refusals.append(Refusal(by="person", message=said[1] if said else ""))
    if _BY_NOBODY in text:
        refusals.append(Refusal(by="nobody"))
    if not result.is_error:  # it ran: what was refused came later, and the words do not tell what
        refusals = [replace(one, of=of) for one in refusals for of in ("outside", "changes")]
    return replace(result, refusals=tuple(refusals))
