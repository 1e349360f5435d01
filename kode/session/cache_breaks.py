"""Finds where the requests of a session stopped sharing their beginning with the one before, why,
and what it cost.

A server caches the beginning of a request, which makes the next one with the same beginning cheap.
What each request held is in the session at that point, and the cause in the entries between two.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from kode.messages import Message, Usage
from kode.session.entries import RequestEntry, SystemEntry
from kode.session.index import read, session_path
from kode.session.log import Session
from kode.session.requests import message_bytes, part_object
from kode.session.spending import Step, step_of

Price = Callable[[str, Usage], float | None]
"""(model, usage) → dollars; None if the price is unknown."""

EXCERPT_CHARS = 60  # one line on each side of the change
SMALL_TOKENS, SMALL_SHARE = 1_024, 0.05
"""How much less than before may come from a cache that lost nothing: it stores blocks."""

_EDITS = ("compaction", "trim", "rewind", "restore")
"""Types of entries that change what was sent before."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """The part in which two requests differ, and the place in it."""

    name: str
    """For a person: `system prompt, memory`, `tool read_file`, `message 3`."""
    byte: int
    """Offset in the part's text, from 0."""
    before: str
    after: str
    """The new text there, shortened."""
    is_in_message: bool
    """Whether the part stands behind the system prompt and the tools."""


@dataclass(frozen=True, kw_only=True)
class CacheBreak:
    """Why the server had to read again what it had read before."""

    step: str
    """The id of the answer's entry, see `spending.Step`."""
    at: str
    kind: str
    """`model`, `tool`, a section of the system prompt such as `memory`, `message`, `cache`, or the
    session's own `compaction`, `trim`, `rewind` or `restore`."""
    cause: str
    """The kind in words."""
    spot: Spot | None
    """None if the beginning is the same."""
    since: str
    """When the previous request was made."""
    tokens: int
    """How many more could have come from a cache: the smaller input of the two requests, minus the
    server's count of cached tokens."""
    cost_usd: float | None
    """The extra cost compared with a cache; None if the price is unknown."""


class AnsweredRequest(NamedTuple):
    """A request of a turn. The server may not have read one that it never answered."""

    record: RequestEntry
    beginning: SystemEntry | None
    messages: Sequence[Message]
    step: Step
    edits: Sequence[str]
    """Types of the entries since the last such request that changed what was sent before."""


def find_breaks(home: Path, session_id: str, price: Price) -> tuple[CacheBreak, ...] | None:
    """The breaks between the requests of a session, oldest first; None if it holds no record of a
    request. Raises: SessionError, StorageError."""
    header, entries, _ = read(session_path(home, session_id))
    if not any(isinstance(entry, RequestEntry) for entry in entries):
        return None
    session, edits, breaks = Session(header=header, path=None), list[str](), list[CacheBreak]()
    before = record = None
    for entry in entries:
        session.append(entry)
        if entry.type in _EDITS:
            edits.append(entry.type)
        if isinstance(entry, RequestEntry):
            record, messages = entry, session.messages[: entry.messages]
        elif record is not None and (step := step_of(entry)) and step.purpose == "turn":
            now = AnsweredRequest(record, session.beginning, messages, step, edits)
            if before is not None and (cache_break := find_break(before, now, price)) is not None:
                breaks.append(cache_break)
            before, record, edits = now, None, []
    return tuple(breaks)


def find_break(before: AnsweredRequest, now: AnsweredRequest, price: Price) -> CacheBreak | None:
    """Compares a request with the previous one. None if the beginning stayed and the cache held, or
    the server reports no cached tokens."""
    model, usage, previous = now.step.model, now.step.usage, before.step.usage
    repeated = min(previous.input_tokens, usage.input_tokens)
    tokens = max(0, repeated - usage.cached_tokens)
    kind, cause, spot = _compare(before, now)
    # Where the system prompt or a tool differs, a server may cache only whole prompts.
    has_same_start = not kind or (spot is not None and spot.is_in_message)
    reports = any(each.cached_tokens + each.cache_write_tokens for each in (previous, usage))
    is_much = tokens > max(SMALL_TOKENS, repeated * SMALL_SHARE)
    if has_same_start and reports and is_much and not (kind and usage.cached_tokens):
        later = f"; after it, {cause}" if cause else ""
        kind, cause = "cache", f"the server's cache expired: the start is the same{later}"
    if not kind:
        return None
    cached, written = usage.cached_tokens + tokens, max(0, usage.cache_write_tokens - tokens)
    paid = price(model, usage)
    least = price(model, replace(usage, cached_tokens=cached, cache_write_tokens=written))
    return CacheBreak(
        step=now.step.entry,
        at=now.record.at,
        kind=kind,
        cause=cause,
        spot=spot,
        since=before.record.at,
        tokens=tokens,
        cost_usd=None if paid is None or least is None else paid - least,
    )


def _compare(before: AnsweredRequest, now: AnsweredRequest) -> tuple[str, str, Spot | None]:
    """(kind, cause, place) of the first difference; ("", "", None) if one request continues the
    other."""
    for name in ("model", "provider"):
        old, new = getattr(before.record, name), getattr(now.record, name)
        if old != new:
            return "model", f"another {name}: {old} → {new}", None
    pairs = enumerate(zip(before.messages, now.messages, strict=False))
    differing = (at for at, (a, b) in pairs if a is not b and message_bytes(a) != message_bytes(b))
    position = next(differing, 0)
    old_parts, new_parts = _parts(before, position), _parts(now, position)
    for (old, old_part), (new, part) in zip(old_parts.items(), new_parts.items(), strict=False):
        if (old, old_part) == (new, part):
            continue
        name, verb = new, "moved" if old_parts.get(new) == part else "changed"
        if new not in old_parts:
            verb = "was added"
        elif old not in new_parts:
            name, verb = old, "was removed"
        texts = [parts.get(name, ("", ""))[1] for parts in (old_parts, new_parts)]
        kind = (new_parts.get(name) or old_parts[name])[0]
        is_in_message = kind == "message"
        cause = f"the {name if kind in ('tool', 'message') else f'section {kind}'} {verb}"
        # Only a compaction renders the system prompt again.
        edits = now.edits if is_in_message else [e for e in now.edits if e == "compaction"]
        if edits:
            kind, cause = edits[-1], f"the session's own {edits[-1]}: {cause}"
        return kind, cause, _spot(name, *texts, is_in_message=is_in_message)
    return "", "", None


def _spot(name: str, old: str, new: str, *, is_in_message: bool) -> Spot:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    start = max(0, same - EXCERPT_CHARS // 3)
    sides = (" ".join(text[start : start + EXCERPT_CHARS].split()) for text in (old, new))
    byte = len(new[:same].encode("utf-8", "replace"))
    before, after = sides
    return Spot(name=name, byte=byte, before=before, after=after, is_in_message=is_in_message)


def _parts(request: AnsweredRequest, position: int) -> dict[str, tuple[str, str]]:
    """(kind, text) of the parts before the messages and of one message, by names for a person, in
    the order in which the server reads them: in Anthropic's format tools come first."""
    sections, tools = dict[str, tuple[str, str]](), dict[str, tuple[str, str]]()
    if request.beginning is not None:
        for name, text in request.beginning.sections.items():
            sections[f"system prompt, {name}"] = name, text
        for tool in request.beginning.tools:
            tools[f"tool {tool['name']}"] = "tool", json.dumps(tool)
    parts = tools | sections if request.record.provider == "anthropic" else sections | tools
    for number, part in enumerate(request.messages[position].parts if request.messages else ()):
        name = f"message {position + 1}" + (f", part {number + 1}" if number else "")
        parts[name] = "message", json.dumps(part_object(part), ensure_ascii=False)
    return parts
