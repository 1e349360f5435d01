"""Finds where the requests of a session stopped sharing their beginning with the one before, why,
and what it cost.

A server caches the beginning of a request, which makes the next one with the same beginning cheap.
The session tells what each request began with, and what else changed between two requests.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from kode.messages import Usage
from kode.session.entries import Entry, Header, MessageEntry, RequestEntry, SystemEntry
from kode.session.log import Session
from kode.values import Value, replace

Price = Callable[[str, Usage], float | None]
"""(model, usage) → dollars; None if the price is unknown."""

EXCERPT_CHARS = 60  # one line on each side of the change
SMALL_TOKENS, SMALL_SHARE = 1_024, 0.05
"""By how much cached tokens may fall short though nothing was lost: caches store whole blocks."""

_EDITS = ("compaction", "trim", "rewind", "restore", "unbound")
"""Types of the entries that change what was sent before."""


class CacheBreak(Value):
    """Why the server had to read again what it had read before."""

    step: str
    """The id of the answer's entry."""
    kind: str
    """`model`, `provider`, `tool`, a section of the system prompt such as `memory`, `cache`, or the
    type of the entry that changed what was sent before, such as `compaction`."""
    cause: str
    """In words; if a part of the request changed, with its old and new text at that place."""
    tokens: int
    """How many more tokens could have come from a cache: the smaller input of the two requests,
    minus the server's count of cached tokens."""
    cost_usd: float | None
    """The extra cost compared with a cache; None if the price is unknown."""


class _SentRequest(NamedTuple):
    """An answered request of a turn: the server may never have read one that it did not answer."""

    answer: MessageEntry
    usage: Usage
    parts: dict[str, str]
    """The parts before the messages, by a name that a person understands."""
    edits: Sequence[str]
    """Types of the entries since the last such request that changed what was sent before."""


def find_breaks(header: Header, entries: Iterable[Entry], price: Price) -> list[CacheBreak]:
    """The breaks between the requests of a session, oldest first."""
    session, edits, breaks = Session(header=header, path=None), list[str](), list[CacheBreak]()
    before = record = None
    for entry in entries:
        session.append(entry)
        if entry.type in _EDITS:
            edits.append(entry.type)
        if isinstance(entry, RequestEntry):
            record = entry
        elif record is not None and isinstance(entry, MessageEntry) and entry.usage is not None:
            now = _SentRequest(entry, entry.usage, _parts_of(session, record), edits)
            if before is not None and (cache_break := _find_break(before, now, price)) is not None:
                breaks.append(cache_break)
            before, record, edits = now, None, []
    return breaks


def _find_break(before: _SentRequest, now: _SentRequest, price: Price) -> CacheBreak | None:
    """Compares two requests; None if the beginning stayed and the cache, if reported, held."""
    previous, usage = before.usage, now.usage
    repeated = min(previous.input_tokens, usage.input_tokens)
    tokens = max(0, repeated - usage.cached_tokens)
    kind, cause = _find_difference(before, now)
    reports = any(each.cached_tokens + each.cache_write_tokens for each in (previous, usage))
    is_much = tokens > max(SMALL_TOKENS, repeated * SMALL_SHARE)
    # Where the system prompt or a tool differs, a server may cache only whole prompts.
    has_same_start = [*before.parts.items()] == [*now.parts.items()]
    if has_same_start and reports and is_much and not (kind and usage.cached_tokens):
        later = f"; after it, {cause}" if cause else ""
        kind, cause = "cache", f"the server's cache expired: the start is the same{later}"
    if not kind:
        return None
    cached, written = usage.cached_tokens + tokens, max(0, usage.cache_write_tokens - tokens)
    least = replace(usage, cached_tokens=cached, cache_write_tokens=written)
    paid, cheapest = price(now.answer.model, usage), price(now.answer.model, least)
    extra = None if paid is None or cheapest is None else paid - cheapest
    return CacheBreak(step=now.answer.id, kind=kind, cause=cause, tokens=tokens, cost_usd=extra)


def _find_difference(before: _SentRequest, now: _SentRequest) -> tuple[str, str]:
    """(kind, cause) of the first difference; "" if one request continues the other."""
    old, new = before.parts, now.parts
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    changed += [name for name, other in zip(new, old, strict=False) if name != other]
    # Only a compaction renders the system prompt again.
    edits = [edit for edit in now.edits if not changed or edit == "compaction"]
    kind, cause = "", ""
    if changed:
        name = changed[0]
        kind, cause = name.partition(" ")[0], f"the {name} moved"
        if name not in old or name not in new:
            cause = f"the {name} was {'removed' if name in old else 'added'}"
        elif old[name] != new[name]:
            cause = f"the {name} changed: {_show_difference(old[name], new[name])}"
    if edits:
        kind, cause = edits[-1], f"the session's own {edits[-1]}" + (f": {cause}" if cause else "")
    return kind, cause


def _show_difference(old: str, new: str) -> str:
    """Shows both texts around their first difference, on one line: `'old' → 'new'`."""
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))
    start = max(0, same - EXCERPT_CHARS // 3)
    before, after = (" ".join(text[start : start + EXCERPT_CHARS].split()) for text in (old, new))
    return f"{before!r} → {after!r}"


def _parts_of(session: Session, record: RequestEntry) -> dict[str, str]:
    """The parts in the order in which the server reads them: Anthropic's reads the tools first."""
    begins = session.beginning or SystemEntry(sections={})
    tools = {f"tool {tool.name}": str(vars(tool)) for tool in begins.tools}
    first = tools if record.provider == "anthropic" else {}
    return {"model": record.model, "provider": record.provider, **first, **begins.sections, **tools}
