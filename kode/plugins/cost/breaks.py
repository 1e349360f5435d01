"""Finds where a request stopped sharing its beginning with the one before, why, and what that cost.

A server caches the beginning of a request, which makes the next one with the same beginning cheap.
This module finds the first part that differs, from the records and texts; the cause, from the
entries between the two; and how much after it was sent, and paid for, again.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from kode.plugin import (
    AnyEntry,
    CompactionEntry,
    Message,
    Part,
    PruneEntry,
    RestoreEntry,
    RewindEntry,
    Step,
    Text,
    TrimEntry,
    Usage,
    digest_of,
    message_bytes,
    part_object,
    plural,
    section_of,
    step_of,
)
from kode.plugins.cost.sent import Piece, Sent, pieces

Price = Callable[[str, Usage], float | None]
"""(model, usage) → dollars; None if the price is unknown."""

EXCERPT_BYTES = 60  # one line on each side of the change
SMALL_TOKENS = 256  # two of the blocks of 128 tokens that OpenAI's cache counts in
SMALL_SHARE = 0.05
"""How much less than before a server may count as cached without having lost anything: caches store
blocks."""

LEAST_CACHED_TOKENS = 1_024
"""Servers cache no shorter beginning."""
CACHE_LOST = "the server's cache expired: the start is the same"

_FOLDER = re.compile(r"Working directory: (.*?)(?: \(|\. System)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")

_CHANGES: dict[type, str] = {
    CompactionEntry: "the conversation was compacted",
    PruneEntry: "old tool output was dropped to save space",
    TrimEntry: "the session was trimmed by hand",
    RewindEntry: "the conversation was rewound",
    RestoreEntry: "a compaction, a pruning or a rewind was undone",
}
_SECTIONS = {
    "kode": "kode's own text: another version or profile of kode",
    "given": "`--system`",
    "instructions": "the project's instructions",
    "skills": "the available skills",
    "memory": "memory's part of the prompt",
    "appended": "`--append-system`",
    "message": "an earlier message is no longer the same",
}
_OF_A_FOLDER = frozenset("folder place instructions skills memory".split())
"""Parts that change with the working folder."""


@dataclass(frozen=True, kw_only=True)
class Spot:
    """The part in which two requests differ, and the place in it."""

    name: str
    """For a person: `system prompt, memory`, `tool read_file`, `message 3`."""
    byte: int | None = None
    """Offset in the part's text, from 0; None if the text is not kept."""
    before: str = ""
    after: str = ""
    """The new text there, shortened."""


@dataclass(frozen=True, kw_only=True)
class Break:
    """Why the server had to read again what it had read before."""

    step: str
    """The id of the answer's entry, see `spending.Step`."""
    at: str
    kind: str
    """`model`, `tool`, `folder`, `day`, `place`, `kode`, `instructions`, `skills`, `memory`,
    `appended`, `compaction`, `prune`, `trim`, `rewind`, `restore`, `cache` or `message`."""
    cause: str
    """The kind in words."""
    spot: Spot | None = None
    """None if the beginning is the same."""
    since: str = ""
    """When the previous request was made."""
    session_before: str = ""
    """The session of the previous request, if it was an earlier one."""
    tokens: int = 0
    """Tokens sent before that did not come from a cache now: an estimate by size (or, with the same
    beginning, the previous count) minus the server's count of cached tokens."""
    cost_usd: float | None = None
    """The extra cost compared with a cache; None if the price is unknown."""


@dataclass(frozen=True, kw_only=True)
class _Difference:
    kind: str
    cause: str
    spot: Spot | None = None
    in_messages: bool = False


def break_of(
    home: Path,
    before: Sent,
    now: Sent,
    between: Sequence[AnyEntry],
    price: Price,
    *,
    caches: bool = True,
) -> Break | None:
    """Compares an answered request with the previous one of its session; `between` are the entries
    after that one's record; `caches` tells whether the server reports cached tokens. None if the
    beginning stayed and the cache held."""
    changes = [entry for entry in between if type(entry) in _CHANGES]
    difference = _of_model(before, now) or _in_pieces(home, before, now)
    if difference is not None:
        # Nothing else renders the system prompt again.
        changes = [entry for entry in changes if isinstance(entry, CompactionEntry)]
    difference = difference or _in_messages(before, now)
    if difference is None:
        return _of_cache(before, now, between, price) if caches else None
    if changes and difference.spot is not None:
        cause = _CHANGES[type(changes[-1])]
        if difference.kind != "message":
            cause = f"{cause}; {difference.cause}"
        difference = replace(difference, kind=changes[-1].type, cause=cause)
    beginning, again = _sent_again(home, before, now)
    if caches and difference.in_messages and _is_cold(now, beginning):
        difference = _after_lost_cache(difference)
    return _break(before, now, difference, again, price)


def first_break(
    home: Path,
    before: Sent,
    now: Sent,
    folders: tuple[str, str],
    price: Price,
    *,
    caches: bool = True,
) -> Break | None:
    """Compares a session's first answered request with one of an earlier session; `folders` are
    those of the two; `caches` as in `break_of`. A different prompt of the person is not a break."""
    difference = _in_pieces(home, before, now) or _in_messages(before, now)
    beginning, again = _sent_again(home, before, now)
    if difference is not None and folders[0] != folders[1] and difference.kind in _OF_A_FOLDER:
        cause = f"a new folder: {folders[0]} → {folders[1]}"
        difference = replace(difference, kind="folder", cause=cause)
    if difference is not None and difference.kind == "message":
        difference = None
    if caches and (difference is None or difference.in_messages) and _is_cold(now, beginning):
        difference = _after_lost_cache(difference)
    return None if difference is None else _break(before, now, difference, again, price)


def _is_cold(now: Sent, beginning: int) -> bool:
    """Whether nothing came from a cache although so many tokens at the beginning are the same.

    Not asked where the system prompt or a tool differs: a server may cache only whole prompts."""
    return beginning >= LEAST_CACHED_TOKENS and not _answer(now).usage.cached_tokens


def _after_lost_cache(difference: "_Difference | None") -> "_Difference":
    if difference is None:
        return _Difference(kind="cache", cause=CACHE_LOST)
    return replace(difference, kind="cache", cause=f"{CACHE_LOST}; after it, {difference.cause}")


def _of_model(before: Sent, now: Sent) -> _Difference | None:
    was, is_ = before.record, now.record
    if was.model != is_.model:
        return _Difference(kind="model", cause=f"another model: {was.model} → {is_.model}")
    if was.provider != is_.provider:
        cause = f"another provider: {was.provider} → {is_.provider}"
        return _Difference(kind="model", cause=cause)
    return None


def _of_cache(before: Sent, now: Sent, between: Sequence[AnyEntry], price: Price) -> Break | None:
    """A break with the same beginning: the server read less from its cache than it could."""
    usage = _answer(now).usage
    could = min(_answer(before).usage.input_tokens, usage.input_tokens)
    missing = could - usage.cached_tokens
    if missing <= max(SMALL_TOKENS, could * SMALL_SHARE):
        return None
    others = [step for entry in between if (step := step_of(entry)) and step.purpose != "turn"]
    beside = [step for step in others if step.model == now.record.model]
    cause = CACHE_LOST
    if beside:
        purposes = ", ".join(dict.fromkeys(step.purpose for step in beside))
        cause += f"; {plural(len(beside), 'other request')} to it came in between ({purposes})"
    return _break(before, now, _Difference(kind="cache", cause=cause), could, price)


def _break(before: Sent, now: Sent, difference: _Difference, again: int, price: Price) -> Break:
    """A break after which `again` tokens were sent a second time; those not read from a cache
    cost."""
    model, usage = _answer(now).model, _answer(now).usage
    tokens = max(0, min(again, usage.input_tokens) - usage.cached_tokens)
    cached = usage.cached_tokens + tokens
    written = max(0, usage.cache_write_tokens - tokens)
    paid = price(model, usage)
    spared = price(model, replace(usage, cached_tokens=cached, cache_write_tokens=written))
    cost = None if paid is None or spared is None else paid - spared
    return Break(
        step=_answer(now).entry,
        at=now.record.at,
        kind=difference.kind,
        cause=difference.cause,
        spot=difference.spot,
        since=before.record.at,
        tokens=tokens,
        cost_usd=cost,
    )


def _answer(sent: Sent) -> Step:
    assert sent.step is not None, "only answered requests are compared"
    return sent.step


def _sent_again(home: Path, before: Sent, now: Sent) -> tuple[int, int]:
    """(tokens up to the first part that differs from the previous request, tokens of all parts that
    were in it), by the size of the parts."""
    was, is_ = _parts(home, before), _parts(home, now)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(was, is_, strict=False))
    beginning, known = sum(size for (_, size), _ in same), dict(was)
    again = sum(size for digest, size in is_ if digest in known)
    share = _answer(now).usage.input_tokens / max(1, sum(size for _, size in is_))
    return round(beginning * share), round(again * share)


def _parts(home: Path, sent: Sent) -> list[tuple[str, int]]:
    """(digest, size) of each section, tool and message."""
    parts = [(piece.digest, piece.size) for piece in pieces(home, sent)]
    data = map(message_bytes, sent.messages[: sent.record.messages])
    return [*parts, *((digest_of(one), len(one)) for one in data)]


# ── system prompt and tools ──────────────────────────────────────────────────────────────────


def _in_pieces(home: Path, before: Sent, now: Sent) -> _Difference | None:
    """Finds the first section or tool that differs."""
    if (before.record.system, before.record.tools) == (now.record.system, now.record.tools):
        return None
    was, is_ = pieces(home, before), pieces(home, now)
    position = 0
    while position < min(len(was), len(is_)) and was[position].digest == is_[position].digest:
        position += 1
    old, new, verb = _changed(was, is_, position)
    piece = new or old
    assert piece is not None
    texts = tuple("" if one is None else one.text for one in (old, new))
    name = f"{piece.kind} {piece.name}" if piece.kind == "tool" else _title(piece)
    if piece.kind == "tool":
        kind, cause = "tool", _of_tool(piece.name, verb)
    else:
        kind, cause = _of_section(piece.name, *(text or "" for text in texts))
    return _Difference(kind=kind, cause=cause, spot=_spot(name, *texts))


def _changed(
    was: Sequence[Piece], is_: Sequence[Piece], position: int
) -> tuple[Piece | None, Piece | None, str]:
    """(old, new, what happened) for the part to blame for the difference at a position: one that
    was added or removed, else one that changed."""
    old, new = (side[position] if position < len(side) else None for side in (was, is_))
    if new is not None and (same := _named_like(new, was)):
        if old is not None and not _named_like(old, is_):
            return old, None, "was removed"
        return same, new, "changed" if same.digest != new.digest else "moved"
    if new is not None:
        return None, new, "was added"
    return old, None, "was removed"


def _title(piece: Piece) -> str:
    return f"system prompt, {piece.name}"


def _named_like(piece: Piece, side: Sequence[Piece]) -> Piece | None:
    return next((one for one in side if (one.kind, one.name) == (piece.kind, piece.name)), None)


def _of_tool(name: str, verb: str) -> str:
    server = re.fullmatch(r"mcp__((?:(?!__).)+)__.+", name)
    of = f" of the MCP server {server[1]}" if server else ""
    return f"the tool {name}{of} {verb}"


def _of_section(name: str, before: str, after: str) -> tuple[str, str]:
    """(kind, cause)"""
    if name != "place":
        return name, _SECTIONS.get(name, f"the section {name}")
    for kind, pattern in (("folder", _FOLDER), ("day", _DAY)):
        was, is_ = pattern.findall(before), pattern.findall(after)
        if was != is_:
            return kind, f"a new {kind}: {' '.join(was)} → {' '.join(is_)}"
    return "place", "kode's text about where it works"


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def _in_messages(before: Sent, now: Sent) -> _Difference | None:
    """Finds the first message that differs; None if one list continues the other."""
    count = min(before.record.messages, now.record.messages)
    if before.digests[:count] == now.digests[:count]:
        return None
    position = next(i for i in range(count) if before.digests[i] != now.digests[i])
    kind, before_text, after_text = _differing(before.messages[position], now.messages[position])
    name = f"message {position + 1}" + (f", {kind}" if kind != "message" else "")
    spot = _spot(name, before_text, after_text)
    kind, cause = _of_section(kind, before_text, after_text)
    return _Difference(kind=kind, cause=cause, spot=spot, in_messages=True)


def _differing(old: Message, new: Message) -> tuple[str, str, str]:
    """(kind, text before, text after) of the first part in which two messages differ."""
    for one, other in zip(old.parts, new.parts, strict=False):
        was, is_ = part_object(one), part_object(other)
        if was == is_:
            continue
        kind = _kind_of(other)
        if _kind_of(one) != kind and _kind_of(one) not in map(_kind_of, new.parts):
            return _kind_of(one), str(was.get("text", "")), ""
        if _kind_of(one) != kind:
            return kind, "", str(is_.get("text", ""))
        text = "arguments" if "arguments" in is_ else "text"
        return kind, str(was.get(text, "")), str(is_.get(text, ""))
    return "message", "", ""


def _kind_of(part: Part) -> str:
    """The section that one of kode's own texts in a message belongs to; `message` for anything
    else."""
    if not isinstance(part, Text) or part.source not in ("opening", "memory"):
        return "message"
    return section_of(part) or part.source


# ── the place in a text ──────────────────────────────────────────────────────────────────────


def _spot(name: str, before: str | None, after: str | None) -> Spot:
    if before is None or after is None:
        return Spot(name=name)
    sides = (before.encode("utf-8", "replace"), after.encode("utf-8", "replace"))
    byte = _common_beginning(*sides)
    start = max(0, byte - EXCERPT_BYTES // 3)
    return Spot(
        name=name,
        byte=byte,
        before=_excerpt(sides[0], start),
        after=_excerpt(sides[1], start),
    )


def _common_beginning(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _excerpt(data: bytes, start: int) -> str:
    """A line of a text from a byte offset on."""
    text = data[start : start + EXCERPT_BYTES].decode("utf-8", "ignore")
    return " ".join(text.split())
