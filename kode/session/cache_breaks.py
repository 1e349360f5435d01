"""Finds where requests stopped sharing their beginning with the one before, why, and what it cost.

A server caches the beginning of a request, which makes the next one with the same beginning cheap.
What each request held is in the session at that point, and the cause in the entries between two.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from kode.messages import Message, Text, Usage
from kode.session.entries import AnyEntry, Header, RequestEntry, SystemEntry
from kode.session.index import last_used_first
from kode.session.log import Session
from kode.session.reading import read, session_path
from kode.session.requests import message_bytes, part_object
from kode.session.spending import Step, step_of

Price = Callable[[str, Usage], float | None]
"""(model, usage) → dollars; None if the price is unknown."""

SEARCHED_SESSIONS = 50
"""How many recent sessions to search for the request before a session's first."""
EXCERPT_BYTES = 60  # one line on each side of the change
SMALL_TOKENS, SMALL_SHARE = 1_024, 0.05
"""How much less than before may come from a cache that lost nothing: it stores blocks."""

_EDITS = ("compaction", "prune", "trim", "rewind", "restore")
"""Types of entries that change what was sent before."""
_FOLDER_SECTIONS = ("place", "instructions", "skills", "memory")
"""Sections that change with the working folder."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


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


@dataclass(frozen=True, kw_only=True)
class CacheBreak:
    """Why the server had to read again what it had read before."""

    step: str
    """The id of the answer's entry, see `spending.Step`."""
    at: str
    kind: str
    """`model`, `tool`, `folder`, `day`, `place`, `kode`, `instructions`, `skills`, `memory`,
    `appended`, `compaction`, `prune`, `trim`, `rewind`, `restore`, `cache` or `message`."""
    cause: str
    """The kind in words."""
    spot: Spot | None
    """None if the beginning is the same."""
    since: str
    """When the previous request was made."""
    session_before: str = ""
    """The session of the previous request, if it was an earlier one."""
    tokens: int
    """How many more could have come from a cache: the smaller input of the two requests, minus the
    server's count of cached tokens."""
    cost_usd: float | None
    """The extra cost compared with a cache; None if the price is unknown."""


class RequestPart(NamedTuple):
    """A section of the system prompt, a tool, or a part of a message."""

    name: str
    """As in `Spot.name`; no two parts of a request share one."""
    section: str
    """The section of kode's own text; "tool" for a tool, "message" for anything else."""
    text: str
    data: bytes
    """What was sent of it."""
    is_in_message: bool = False


class AnsweredRequest(NamedTuple):
    """A request of a turn. The server may not have read one that it never answered."""

    record: RequestEntry
    number: int
    """Index of the record among the session's entries."""
    parts: Sequence[RequestPart]
    """In the order in which the server reads them."""
    step: Step


class _Change(NamedTuple):
    """The first difference of two requests; "" is the text of a part that was not there."""

    part: RequestPart
    before: str
    after: str
    verb: str


def find_breaks(home: Path, session_id: str, price: Price) -> tuple[CacheBreak, ...] | None:
    """The breaks between the requests of a session, oldest first; None if it holds no record of a
    request. Raises: SessionError, StorageError."""
    header, entries, _ = read(session_path(home, session_id))
    if not any(isinstance(entry, RequestEntry) for entry in entries):
        return None
    requests = [*answered_requests(header, entries)]
    breaks = [_first_break(home, header, request, price) for request in requests[:1]]
    for before, now in pairwise(requests):
        breaks.append(find_break(before, now, price, entries[before.number + 1 : now.number]))
    return tuple(filter(None, breaks))


def _first_break(home: Path, of: Header, now: AnsweredRequest, price: Price) -> CacheBreak | None:
    """Compares a session's first request with the last one to the same model before it."""
    new = now.record
    for summary in islice(last_used_first(home), SEARCHED_SESSIONS):
        other, entries, _ = read(session_path(home, summary.id))
        earlier = None
        for request in answered_requests(other, entries):
            old = request.record
            if (old.provider, old.model) == (new.provider, new.model) and old.at < new.at:
                earlier = request
        if earlier is not None:
            lost = find_break(earlier, now, price, folders=(other.cwd, of.cwd))
            return lost and replace(lost, session_before=other.id)
    return None


def find_break(
    before: AnsweredRequest,
    now: AnsweredRequest,
    price: Price,
    between: Sequence[AnyEntry] = (),
    folders: tuple[str, str] | None = None,
) -> CacheBreak | None:
    """Compares a request with the previous one: of its session, with the entries `between` the two
    records, or of an earlier session, with the working `folders` of both. None if the beginning
    stayed and the cache held, or the server reports no cached tokens."""
    is_same_model = before.record.model == now.record.model
    change = _first_change(before.parts, now.parts) if is_same_model else None
    kind, cause = _explain(before, now, change, between)
    if change and folders and folders[0] != folders[1] and change.part.section in _FOLDER_SECTIONS:
        kind, cause = "folder", f"a new folder: {folders[0]} → {folders[1]}"
    if folders and kind == "message":  # the person wrote something else
        kind, cause, change = "", "", None
    model, usage = now.step.model, now.step.usage
    repeated = min(before.step.usage.input_tokens, usage.input_tokens)
    tokens = max(0, repeated - usage.cached_tokens)
    # Where the system prompt or a tool differs, a server may cache only whole prompts.
    has_same_start = not kind or (change is not None and change.part.is_in_message)
    is_cold = not usage.cached_tokens or not (kind or folders)
    reports = any(one.cached_tokens + one.cache_write_tokens for one in (before.step.usage, usage))
    is_much = tokens > max(SMALL_TOKENS, repeated * SMALL_SHARE)
    if has_same_start and is_cold and reports and is_much:
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
        spot=_spot(change) if change else None,
        since=before.record.at,
        tokens=tokens,
        cost_usd=None if paid is None or least is None else paid - least,
    )


def _explain(
    before: AnsweredRequest,
    now: AnsweredRequest,
    change: _Change | None,
    between: Sequence[AnyEntry],
) -> tuple[str, str]:
    """(kind, cause); empty if one request continues the other."""
    for name in ("model", "provider"):
        old, new = getattr(before.record, name), getattr(now.record, name)
        if old != new:
            return "model", f"another {name}: {old} → {new}"
    if change is None:
        return "", ""
    kind = change.part.section
    what = change.part.name if kind in ("tool", "message") else f"section {kind}"
    cause = f"the {what} {change.verb}"
    if kind == "place":
        old, new = (" ".join(_DAY.findall(text)) for text in (change.before, change.after))
        kind, cause = (kind, cause) if old == new else ("day", f"a new day: {old} → {new}")
    # Only a compaction renders the system prompt again.
    edit_types = _EDITS if change.part.is_in_message else ("compaction",)
    if edits := [entry.type for entry in between if entry.type in edit_types]:
        return edits[-1], f"the session's own {edits[-1]}: {cause}"
    return kind, cause


def _first_change(before: Sequence[RequestPart], now: Sequence[RequestPart]) -> _Change | None:
    """None if one list continues the other."""
    pairs = zip(before, now, strict=False)
    old, new = next((pair for pair in pairs if pair[0].data != pair[1].data), (None, None))
    if old is None or new is None:
        return None
    same = next((part for part in before if part.name == new.name), None)
    if same is None:
        return _Change(new, "", new.text, "was added")
    if all(part.name != old.name for part in now):
        return _Change(old, old.text, "", "was removed")
    return _Change(new, same.text, new.text, "changed" if same.data != new.data else "moved")


def _spot(change: _Change) -> Spot:
    old, new = (text.encode("utf-8", "replace") for text in (change.before, change.after))
    byte = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    start = max(0, byte - EXCERPT_BYTES // 3)
    sides = (side[start : start + EXCERPT_BYTES].decode("utf-8", "ignore") for side in (old, new))
    old_line, new_line = (" ".join(text.split()) for text in sides)
    return Spot(name=change.part.name, byte=byte, before=old_line, after=new_line)


def answered_requests(header: Header, entries: Sequence[AnyEntry]) -> Iterator[AnsweredRequest]:
    """The requests of all turns as they were sent, oldest first, including rewound ones."""
    session = Session(header=header, path=None)
    messages: Sequence[Message] = ()
    parts: list[list[RequestPart]] = []
    pending: tuple[RequestEntry, int, Sequence[RequestPart]] | None = None
    for number, entry in enumerate(entries):
        session.append(entry)
        if isinstance(entry, RequestEntry) and entry.purpose == "turn":
            if session.messages is not messages or len(messages) < len(parts):
                messages, parts = session.messages, []
            for position, message in enumerate(messages[len(parts) :], len(parts)):
                parts.append([*_message_parts(position, message)])
            sent = chain.from_iterable(parts[: entry.messages])
            pending = entry, number, [*_beginning_parts(session.beginning, entry.provider), *sent]
        if pending and (step := step_of(entry)) and step.purpose == "turn":
            yield AnsweredRequest(*pending, step)
            pending = None


def _beginning_parts(beginning: SystemEntry | None, provider: str) -> list[RequestPart]:
    """The parts before the messages, in the order the server reads them: in Anthropic's format
    tools come first, elsewhere the system prompt."""
    if beginning is None:
        return []
    sections = [
        RequestPart(f"system prompt, {name}", name, text, text.encode("utf-8", "replace"))
        for name, text in beginning.texts.items()
    ]
    tools = [
        RequestPart(f"tool {tool['name']}", "tool", text := json.dumps(tool), text.encode())
        for tool in beginning.tools
    ]
    return tools + sections if provider == "anthropic" else sections + tools


def _message_parts(position: int, message: Message) -> Iterator[RequestPart]:
    for number, part in enumerate(message.parts):
        fields = part_object(part)
        section, name = "message", f"part {number + 1}" if number else ""
        if isinstance(part, Text) and part.source in ("opening", "memory"):
            section = name = part.section_name or part.source
        yield RequestPart(
            name=f"message {position + 1}" + (f", {name}" if name else ""),
            section=section,
            text=str(fields.get("arguments", fields.get("text", ""))),
            data=message_bytes(replace(message, parts=(part,))),
            is_in_message=True,
        )
