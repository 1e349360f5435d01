"""What a note is, and when one may be kept. Values only: no file, no clock of its own.

Times are UTC in one format of fixed width, so that they compare as texts.
"""

import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.lineage import Entry
from kode.memory.places import Row
from kode.memory.stored import check_row
from kode.messages import shorten

SYSTEM = "notes"

Kind = Literal["log", "summary", "rule", "soul"]
Stability = Literal["volatile", "stable", "permanent"]
Sensitivity = Literal["normal", "sensitive"]
Untrusted = Literal["", "waits", "approved"]

KINDS: tuple[Kind, ...] = get_args(Kind)

SOUL_CHARS = 4_000
MAX_NOTE_CHARS = 4_096
"""What one write may hold."""
MAX_MERGED_CHARS = 5 * MAX_NOTE_CHARS + 64
"""What merging five of them may make."""
FIRST_SOUL = (
    "I am kode, a coding agent in this user's terminal. I do what is asked, say plainly what I "
    "did and what I did not, and ask before what cannot be undone."
)
"""What the first soul says until it is updated. The system prompt says as much of its own, so it is
shown only once it says something else."""
MIN_RULE_CONFIDENCE = 0.8
MAX_TTL_DAYS = 36_500
MAX_TAGS = 20
MAX_TAG_CHARS = 60
MAX_EVIDENCE = 20
PROJECT_SCOPE = "project:"
"""A scope that begins so belongs to one project, by its path hash; any other is seen everywhere."""


@dataclass(frozen=True, kw_only=True)
class Note:
    id: str
    content: str
    kind: Kind = "log"
    user: str = "default"
    scope: str = "user"
    tags: tuple[str, ...] = ()
    confidence: float = 1.0
    stability: Stability = "stable"
    sensitivity: Sensitivity = "normal"
    evidence: tuple[str, ...] = ()
    job_id: str | None = None
    created_at: str
    expires_at: str | None = None
    """From this moment on it is shown no more; None: never."""
    superseded_by: str | None = None
    """The note that stands in its place."""
    untrusted: Untrusted = ""
    """`waits`: from a session that took in untrusted content, not shown before it is approved."""
    degraded: bool = False
    """A merge that is a list of what its parts said, and no synthesis by a model."""
    who: str = "user"
    session: str | None = None
    turn: int | None = None
    person: str = field(default="", compare=False)
    """In a team who wrote it, as the server knows them; "" for what was written here and is not
    sent yet. A note is the same whoever's it is."""
    host: str = field(default="", compare=False)
    """And on which machine."""

    @property
    def sensitive(self) -> bool:
        return self.sensitivity == "sensitive"

    @property
    def is_first_soul(self) -> bool:
        """Whether it says who kode is anyway."""
        return self.content == FIRST_SOUL

    @property
    def lasts(self) -> str:
        """`permanent`, or `volatile until 2026-03-31`."""
        return self.stability + (f" until {self.expires_at[:10]}" if self.expires_at else "")


def is_shared(note: Note) -> bool:
    """Whether a note leaves the machine. What is sensitive, who kode is for one person, and what
    was done in one person's sessions stay here."""
    return not note.sensitive and note.kind != "soul" and note.job_id is None


# ── times and ids ────────────────────────────────────────────────────────────────────────────


def stamp(moment: datetime) -> str:
    """`2026-03-01T12:34:00.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """Raises ValueError for what is no ISO time; one without a zone is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_last_ids: dict[str, int] = {}
"""The last number given, by millisecond; one entry."""


def new_id(now: datetime) -> str:
    """Ids sort by time; those that one process makes in one millisecond sort in their order."""
    milliseconds = int(now.timestamp() * 1000)
    prefix = f"{milliseconds & 0xFFFFFFFFFFF:011x}"
    last = _last_ids.get(prefix)
    number = secrets.randbits(19) if last is None else last + 1 + secrets.randbits(6)
    _last_ids.clear()
    _last_ids[prefix] = number
    return f"{prefix}{number:05x}"


def expiry(now: datetime, ttl_days: int | None) -> str | None:
    """Raises: MemoryRefused for a lifetime that is none."""
    if ttl_days is None:
        return None
    if isinstance(ttl_days, bool) or not isinstance(ttl_days, int) or ttl_days < 1:
        raise MemoryRefused(
            f"ttl_days is {ttl_days!r}: give whole days from 1 on, or leave it out for a note "
            "that never expires."
        )
    return stamp(now + timedelta(days=min(ttl_days, MAX_TTL_DAYS)))


# ── what may be kept ─────────────────────────────────────────────────────────────────────────


def checked(
    note: Note, author: str = "model", *, strict_ttl: bool = False, max_chars: int = MAX_NOTE_CHARS
) -> Note:
    """The note as it is stored: trimmed, its tags in order, all of its text scanned as `author`
    wrote it.

    Raises: MemoryRefused that says what is wrong and what would be right.
    """
    note = replace(
        note,
        content=note.content.replace("\r\n", "\n").strip(),
        tags=tuple(sorted({tag.strip() for tag in note.tags if tag.strip()})),
        evidence=tuple(dict.fromkeys(text.strip() for text in note.evidence if text.strip())),
    )
    if not note.content:
        raise MemoryRefused("content is empty: say in one sentence what to remember.")
    _check_kind(note)
    _check_life(note, strict_ttl)
    _check_numbers(note)
    scan.check(note.content, max_chars=max_chars, author=author)
    for text in (*note.tags, *note.evidence, note.scope, note.job_id or ""):
        scan.check(text, max_chars=MAX_NOTE_CHARS, author=author)
    return note


def _check_kind(note: Note) -> None:
    if note.kind == "rule" and (note.confidence < MIN_RULE_CONFIDENCE or not note.evidence):
        raise MemoryRefused(
            f"A rule needs confidence of {MIN_RULE_CONFIDENCE} or more and evidence (what showed "
            f"it, at least one line); this has {note.confidence:g} and {len(note.evidence)}. "
            "Give both, or remember it as a log note."
        )
    if note.kind != "soul":
        return
    if len(note.content) > SOUL_CHARS:
        raise MemoryRefused(
            f"The soul would have {len(note.content)} characters and may have {SOUL_CHARS}. "
            "Say it in less."
        )
    if note.stability != "permanent" or note.sensitive or note.scope != "user":
        raise MemoryRefused(
            "A soul is permanent and always shown: it cannot be volatile, sensitive or of one "
            "project. Nothing was changed."
        )


def _check_life(note: Note, strict_ttl: bool) -> None:
    if note.stability == "permanent" and note.expires_at:
        raise MemoryRefused(
            "A permanent note never expires: leave out ttl_days, or make it stable."
        )
    if strict_ttl and note.stability == "volatile" and not note.expires_at:
        raise MemoryRefused("A volatile note needs ttl_days (memory.notes.strict_ttl is on).")


def _check_numbers(note: Note) -> None:
    if not (math.isfinite(note.confidence) and 0 <= note.confidence <= 1):
        raise MemoryRefused(f"confidence is {note.confidence!r}: give a number from 0 to 1.")
    if len(note.tags) > MAX_TAGS or any(len(tag) > MAX_TAG_CHARS for tag in note.tags):
        raise MemoryRefused(
            f"tags: at most {MAX_TAGS} of at most {MAX_TAG_CHARS} characters each. Use fewer."
        )
    if len(note.evidence) > MAX_EVIDENCE:
        raise MemoryRefused(f"evidence: at most {MAX_EVIDENCE} lines. Keep the telling ones.")


# ── rows ─────────────────────────────────────────────────────────────────────────────────────

_ALWAYS = frozenset({"id", "content", "kind", "stability", "sensitivity", "tags", "created_at"})


def row_of(note: Note) -> Row:
    """A note as the fields that say something, `content` last."""
    row = {
        one.name: list(value) if isinstance(value, tuple) else value
        for one in fields(note)
        if (value := getattr(note, one.name)) != one.default or one.name in _ALWAYS
    }
    return {
        **{name: value for name, value in row.items() if name != "content"},
        "content": note.content,
    }


def note_of(row: Row, *, now: datetime, user: str) -> Note:
    """A note from a row that a person may have written; `ttl_days` stands for `expires_at`.

    Not checked yet (`checked`). Raises: MemoryRefused naming the field.
    """
    row = {name: value for name, value in row.items() if value is not None and name != "system"}
    known = {one.name for one in fields(Note)} | {"ttl_days"}
    unknown = sorted(set(row) - known)
    if unknown:
        raise MemoryRefused(
            f"there is no field `{unknown[0]}`; fields are {', '.join(sorted(known))}"
        )
    values = {"created_at": stamp(now), "id": new_id(now), "user": user, **row}
    ttl_days = values.pop("ttl_days", None)
    if "expires_at" not in values:
        values["expires_at"] = expiry(now, ttl_days)
    values.setdefault("stability", "permanent" if values.get("kind") == "soul" else "stable")
    for name in ("created_at", "expires_at"):
        values[name] = values[name] and _time(name, values[name])
    return check_row(Note, values)


def _time(name: str, value: Any) -> str:
    try:
        return stamp(moment(str(value)))
    except (ValueError, OverflowError):
        raise MemoryRefused(
            f"`{name}` is {value!r}; write a time as 2026-03-01 or 2026-03-01T12:00:00Z"
        ) from None


def in_words(note: Note, max_chars: int = 80) -> str:
    """A note quoted in a line that ends on a screen or in a log: a sensitive one is only named."""
    return "a sensitive note" if note.sensitive else f'"{shorten(note.content, max_chars)}"'


def entry_of(note: Note) -> Entry:
    """A note for a person; a sensitive one is only named."""
    waits = note.untrusted == "waits"
    text = in_words(note) if note.sensitive else note.content
    return Entry(
        target=SYSTEM,
        key=note.id,
        text=f"{text} (waits for approval)" if waits else text,
        id=note.id,
        is_fact=note.kind in ("log", "rule") and not waits,
    )


def union(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All texts of all groups once, in order of first sight."""
    return tuple(dict.fromkeys(text for group in groups for text in group))
