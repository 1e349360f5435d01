"""The entries of a session file, one JSON line each. The file only grows: compaction, trim and
rewind are entries too, and what the model gets is a pure function of them all (`messages.py`)."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard, Union

from kode.credentials import redact, redact_secrets
from kode.durable import is_intact, seal
from kode.events import Check, Denial, Status
from kode.messages import Message, Text, Usage
from kode.provider import ToolSpec
from kode.values import Value, field, fields, is_dataclass, replace

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1  # counts the changes of the log's format


new_id = partial(secrets.token_hex, 6)
"""Twelve random hex digits, unique within a file of any length."""


def new_session_id(begins: datetime | None = None) -> str:
    """Returns an id: the UTC time when the session begins (default: now) and six hex digits."""
    return f"{begins or datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def timestamp(seconds: float | None = None) -> str:
    """Formats seconds since the epoch (default: now) as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Origin(Value):
    """The session that this one was forked or imported from."""

    session: str
    """Its id; for an import, its id in the other agent."""
    entry: str | None = None
    """The entry at which a fork was made; None for a fork of everything, and for an import."""
    agent: str = ""
    digest: str = ""
    """SHA-256 of the imported file."""


class Header(Value):
    id: str = field(default_factory=new_session_id)
    created_at: str = field(default_factory=timestamp)
    cwd: str
    model: str
    provider: str
    version: int = VERSION
    parent: str | None = None
    """The session that started this one as a subagent."""
    forked_from: Origin | None = None
    imported_from: Origin | None = None
    type: Literal["session"] = "session"


class Entry(Value):
    """Any line of the file but the first, which is the `Header`."""

    id: str = field(default_factory=new_id)
    at: str = field(default_factory=timestamp)
    type: str


class MessageEntry(Entry, Message):
    cost_usd: float | None = None
    """Cost of the request that it answers; None if the model's price is unknown."""
    masked: bool = False
    """Whether a credential in it was masked on disk, so that a later process sends another text."""
    notes_of: tuple[str, ...] = ()
    """Ids of the entries that its notes tell the model about; see `messages.note_of`."""
    is_pending: bool = False
    """Whether it is a person's message on disk whose turn has not begun: a context settles it."""
    of: str = ""
    """For a context: the id of the pending message that it precedes; "" drops that message."""
    type: Literal["message", "context"] = "message"


class SystemEntry(Entry):
    """What every request begins with, byte for byte, until the next `SystemEntry`."""

    sections: Mapping[str, str]
    """The sections of the system prompt, by name."""
    tools: tuple[ToolSpec, ...] = ()
    """In the order sent. Always the same object, so that a provider can recognize the tools."""
    after: str | None = None
    """Id of the compaction that made it; undoing that restores the previous `SystemEntry`."""
    type: Literal["system"] = "system"

    @property
    def text(self) -> str:
        """The system prompt."""
        return "\n\n".join(self.sections.values())


class SectionUpdateEntry(Entry):
    """A section's newer text, told to the model in the message before this entry."""

    section: str
    text: str
    type: Literal["told"] = "told"


class UnboundEntry(Entry):
    """A server refused earlier thinking. No thinking before this entry is sent again."""

    reason: str = ""
    type: Literal["unbound"] = "unbound"


class CompactionEntry(Entry):
    opening: Mapping[str, str] = field(default_factory=dict)
    """Name → text of the opening sections when it was made; see `Text.source`."""
    summary: str
    user_messages: tuple[str, ...] = ()
    """The person's own words, verbatim, oldest first."""
    plan: str = ""
    """The current plan, with its ticks; see `plan.py`."""
    open_items: tuple[str, ...] = ()
    """Unfinished items of the todo list."""
    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """A line for each text that is no longer sent, oldest first: its id and what it is."""
    kept_from: str | None = None
    """Id of the first message that stays; None if none does."""
    tokens_before: int = 0
    type: Literal["compaction"] = "compaction"


class TrimEntry(Entry):
    kept_from: str | None
    """Id of the first message that stays; None if none does."""
    type: Literal["trim"] = "trim"


class RewindEntry(Entry):
    to: str
    """Id of the first entry that no longer counts."""
    type: Literal["rewind"] = "rewind"


class RestoreEntry(Entry):
    of: str
    """Id of the compaction or rewind that no longer counts."""
    type: Literal["restore"] = "restore"


class UndoEntry(Entry):
    turn: int
    redo: bool = False
    files: tuple[str, ...]
    """The files it changed; their contents are in the folder `undo`."""
    of: str = ""
    """Id of the message that began the turn."""
    step: str = ""
    """Id of its step in the journal, see `kode.undo.journal`."""
    type: Literal["undo"] = "undo"


class JobEntry(Entry):
    name: str
    """Its name to the model, such as `bg1`."""
    title: str
    """The command or the task, as a short label."""
    outcome: str = ""
    """How the job ended; "" in the entry for its beginning."""
    output: str = ""
    """The file with its output; "" for none."""
    of: str = ""
    """In the entry for its end: the id of the entry for its beginning."""
    type: Literal["job"] = "job"


class NoteEntry(Entry):
    text: str
    """What the model is told, in kode's words."""
    type: Literal["note"] = "note"


class NameEntry(Entry):
    """The name that the person gave the session. The last one counts, even if it was rewound."""

    text: str
    """"" removes the name."""
    type: Literal["name"] = "name"


class PlanEntry(Entry):
    text: str
    """Markdown; "" if it was dropped."""
    type: Literal["plan"] = "plan"


class StateEntry(Entry):
    system: str
    """The memory system that the state belongs to."""
    state: Mapping[str, Any]
    type: Literal["memory_state"] = "memory_state"


class TaintEntry(Entry):
    source: str = ""
    type: Literal["taint"] = "taint"


class RequestEntry(Entry):
    """A request of a turn, on disk with the entry that follows it: its reply, or why there is none.
    It begins with the last `SystemEntry`."""

    provider: str
    model: str = ""
    context_window: int | None = None
    """The model's context window in tokens, as known at that time."""
    begins_process: bool = False
    """Whether it is the first one of its process."""
    type: Literal["request"] = "request"


class UsageEntry(Entry):
    purpose: str
    """`memory`, `compaction`, `question` or `subagent`."""
    usage: Usage
    cost_usd: float | None = None
    model: str = ""
    type: Literal["usage"] = "usage"


class HookEntry(Entry):
    """A run of a hook."""

    event: str
    name: str
    origin: str = ""
    """The settings file that defines it."""
    exit_code: int | None
    """None if it did not finish."""
    outcome: str
    """`allow`, `ask`, `deny`, or "" if it made no decision."""
    detail: str = ""
    """Its reason, or what went wrong."""
    call_id: str = ""
    """The call it was about."""
    updated_input: Mapping[str, Any] | None = None
    """The call's input as the hook rewrote it, in the hook's terms; None if unchanged."""
    duration_ms: int
    type: Literal["hook"] = "hook"


class TurnEntry(Entry):
    """The end of a turn. It has the session's totals, since a list reads only the file's end."""

    number: int
    status: Status
    error: str | None = None
    steps: int
    usage: Usage
    cost_usd: float | None = None
    """None if the model's price is unknown."""
    files_changed: tuple[str, ...] = ()
    refused: tuple[Denial, ...] = ()
    checks: tuple[Check, ...] = ()
    fallback_model: str | None = None
    """See `TurnEnded`."""
    duration_ms: int
    total_usage: Usage
    total_cost_usd: float
    session_name: str = ""
    """The name in the last `NameEntry` before it."""
    type: Literal["turn"] = "turn"


class PluginEntry(Entry):
    """A record of a plug-in. Like every entry it no longer counts when its turn is rewound."""

    type: str
    """`x-` and the plug-in's name, which sets its records apart from those of others."""
    value: Mapping[str, Any]


OWN_TYPES: tuple[type[Entry], ...] = tuple(
    kind for kind in Entry.__subclasses__() if kind is not PluginEntry
)
"""The entries that kode itself writes, each with a `type` of its own."""

SETUP = (SystemEntry, SectionUpdateEntry, TaintEntry, StateEntry, HookEntry, NoteEntry, NameEntry)
"""Entries that an open session gets even if nobody uses it; see `Session.is_used`."""

KNOWN_TYPES = frozenset({"context", *(vars(kind)["type"] for kind in (Header, *OWN_TYPES))})

PLUGIN_TYPE = re.compile(r"x-[a-z][a-z0-9-]{0,38}")  # of plug-ins' records


def is_turn(entry: Entry) -> TypeGuard[MessageEntry]:
    """Whether an entry is a message of the person with which a turn began."""
    if isinstance(entry, MessageEntry) and entry.role == "user" and not entry.is_pending:
        for part in entry.parts:
            if isinstance(part, Text) and not part.source:
                return True
    return False


def settle_entry(
    pending: MessageEntry | None, entry: Entry
) -> tuple[MessageEntry | None, tuple[Entry, ...]]:
    """Takes the next entry of a file; returns the message that is pending after it, and the entries
    that now count. A pending message is joined to its context and counts in the context's place."""
    match entry:
        case MessageEntry(is_pending=True):
            return entry, ()
        case MessageEntry(type="context", of=of) if pending is None or of != pending.id:
            return pending if of else None, ()
        case MessageEntry(type="context") if pending is not None:
            joined = replace(pending, parts=(*entry.parts, *pending.parts), is_pending=False)
            masked = pending.masked or entry.masked
            return None, (replace(joined, notes_of=entry.notes_of, masked=masked),)
        case MessageEntry(role="assistant") if pending is not None:  # its context is lost
            return None, (replace(pending, is_pending=False), entry)
    return pending, (entry,)


def settle_all(entries: Iterable[Entry]) -> list[Entry]:
    """Returns the entries of a file that count; a message that is still pending comes last."""
    pending, counting = None, list[Entry]()
    for entry in entries:
        pending, added = settle_entry(pending, entry)
        counting += added
    return [*counting, pending] if pending is not None else counting


def encode_line(entry: Header | Entry) -> bytes:
    """Makes a sealed JSON line without line feed or default values; masks what looks secret."""
    plain, is_masked = to_plain(entry, masks=not isinstance(entry, Header))
    if is_masked and isinstance(entry, MessageEntry):
        plain["masked"] = True
    # `type` first, so that a person reading the file sees what a line is. Lone surrogates, which no
    # JSON reader accepts, become "?".
    return seal(to_json({"type": entry.type, **plain}).encode("utf-8", "replace"))


def parse_line(line: bytes) -> Header | Entry:
    """Parses one line. Raises: ValueError, also if the checksum of the line does not match."""
    if not is_intact(line):
        raise ValueError("the checksum of the line does not fit")
    adapter = _entry_adapter(line.startswith(b'{"type":"x-'))
    try:
        entry: Header | Entry = adapter.validate_json(line)
    except ValueError:
        if not line.startswith((b'{"type":"system"', b'{"type":"context"')):
            raise
        entry = adapter.validate_python(_convert_old_line(json.loads(line)))
    return entry


def _convert_old_line(value: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a line as kode wrote it until November 2026: all sections were one text, with their
    lengths beside it, and contexts had no role."""
    sections, text = dict[str, str](), str(value.get("text", ""))
    for name, size in value.get("sections", {}).items():
        sections[name], text = text[: int(size)], text[int(size) + len("\n\n") :]
    return {"role": "user", **value, "sections": sections}


@cache
def _entry_adapter(is_of_plugin: bool) -> "TypeAdapter[Any]":
    from pydantic import Field, TypeAdapter

    every: Any = Annotated[Union[(Header, *OWN_TYPES)], Field(discriminator="type")]
    return TypeAdapter(PluginEntry if is_of_plugin else every)


_NOT_MASKED = frozenset(
    "own type id at role stop name event outcome call_id signature redacted origin model kept_from "
    "before to of media_type kept_in".split()
)
"""Fields never masked: names and ids that other entries or the provider refer to."""

_OPAQUE = frozenset(
    "id call_id signature encrypted_content encrypted_index data thought_signature "
    "thoughtSignature".split()
)


_SCALARS = (str, int, float, NoneType)


to_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


def to_plain(value: Any, *, masks: bool = True) -> tuple[Any, bool]:
    """A copy of dataclasses, mappings and sequences as JSON objects and lists, dataclasses without
    their default values; and whether it held credentials. `masks`: whether to mask them."""
    root: dict[str, Any] = {"": value}
    is_masked, containers = False, list[tuple[Any, Mapping[str, Any]]]([(root, {})])
    while containers:
        (container, defaults), is_changed = containers.pop(), False
        is_object = isinstance(container, dict)
        kind, own = (container.get("type"), container.get("own")) if is_object else ("", None)
        for key, item in [*(container.items() if is_object else enumerate(container))]:
            if key in defaults and type(item) is type(defaults[key]) and item == defaults[key]:
                del container[key]
            elif isinstance(item, str) and masks and key not in _NOT_MASKED:
                is_arguments = key == "arguments" and kind == "tool_call"
                text = _mask_arguments(item) if is_arguments else redact(item)
                if text != item:
                    container[key], is_changed = text, True
            elif not isinstance(item, _SCALARS) and key not in _NOT_MASKED:
                is_list = isinstance(item, list | tuple)
                values = item if is_list or isinstance(item, Mapping) else vars(item)
                container[key] = plain = [*values] if is_list else {**values}
                containers.append((plain, _defaults_of(item.__class__)))
        if is_changed and kind == "thinking":
            # The signature covers the original text; a part without one is never sent back.
            container["signature"] = ""
        if own is not None and (is_changed or not _is_clean(own)):
            # The provider's own form holds the credential, or no longer matches the masked part.
            container["own"], is_changed = {} if kind == "server_item" else None, True
        is_masked |= is_changed
    return root[""], is_masked


@cache
def _defaults_of(kind: type) -> Mapping[str, Any]:
    """Field → default value of a dataclass, but for those that a line always has."""
    each = fields(kind) if is_dataclass(kind) else ()
    return {it.name: it.default for it in each if it.name not in ("type", "version")}


def _is_clean(value: Any) -> bool:
    """Whether nothing in a provider's own form looks like a credential. Fields that the provider
    encrypted or signed are not checked."""
    if isinstance(value, str):
        return redact(value) == value
    if isinstance(value, list | tuple):
        return all(map(_is_clean, value))
    if isinstance(value, dict):
        return all(_is_clean(item) for key, item in value.items() if key not in _OPAQUE)
    return True


def _mask_arguments(text: str) -> str:
    """Masks a call's arguments. JSON is parsed first, since escapes may hide a credential in it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    masked = redact_secrets(value)
    if masked != value:
        text = json.dumps(masked, ensure_ascii=False)
    # Some values are recognizable only beside their name: `"password": "..."`.
    return redact(text)
