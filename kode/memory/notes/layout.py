"""Where notes stand, and what a note may be. There are no files: the log holds the notes, and a
place is a kind of note, for everywhere or for one project.

What a note has besides its text is in the details of its statement: `tags`, `stability`,
`confidence`, `evidence`, `expires_at`, `job_id`, `degraded`.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote

from kode.contracts import Project
from kode.errors import MemoryRefused
from kode.git import repository_name
from kode.memory import scan
from kode.memory.rendering import Layout
from kode.memory.statement import Statement, StatementKind, timestamp

Kind = Literal["log", "summary", "rule"]
Stability = Literal["volatile", "stable", "permanent"]
TARGETS: Mapping[str, StatementKind] = {
    "note": "log",
    "log": "log",
    "summary": "summary",
    "rule": "rule",
    "soul": "soul",
}
"""What a person calls a kind of note."""
FACT_KINDS: tuple[StatementKind, ...] = ("soul", "rule", "log")
"""Those that say what holds, in the order of a prompt; a summary says what was done."""
SHARED_KINDS: tuple[StatementKind, ...] = ("rule", "log")
"""Those that a team shares."""
TEAM = "team-"
"""Before the key of a team, in the names of its places."""
EVERYWHERE = "*"
"""The scope of what is of no single project."""
MAX_NOTE_CHARS = 4_096  # about a page
MAX_SOUL_CHARS = 4_000
"""As document 004 has it, like the confidence that a rule needs."""
MIN_RULE_CONFIDENCE = 0.8  # see above
MAX_TTL_DAYS = 36_500  # a century
MAX_TAGS, MAX_TAG_CHARS, MAX_EVIDENCE = 20, 60, 20  # more of them say nothing more
_DEFAULTS: Mapping[str, Any] = {"stability": "stable", "confidence": 1.0}


def make_layout(user: str, team: str = "") -> Layout:
    """The places of one user's notes; users never see each other's. With a `team`, its key, new
    notes and rules go into the team's places, beside which the user's own stay."""
    base = "notes" if user == "default" else f"notes@{quote(user, safe='')}"
    team_base = f"{TEAM}{team}"

    def places(kinds: Sequence[StatementKind], project: Project) -> list[str]:
        own = [
            place
            for kind in kinds
            for place in (f"{base}/{kind}", f"{base}/{kind}/{project.hash}")
            if kind != "soul" or place.count("/") == 1
        ]
        shared = [kind for kind in kinds if kind in SHARED_KINDS and team]
        scopes = (EVERYWHERE, name_of(project)) if shared else ()
        return [*own, *(place_in(team_base, kind, scope) for kind in shared for scope in scopes)]

    def place_of(target: str, scope: str, project: Project) -> str:
        if target not in TARGETS:
            listed = ", ".join(TARGETS)
            raise MemoryRefused(f"`target` is {target!r}: say {listed}. Nothing was changed.")
        if scope not in ("", "global", "user", "project"):
            raise MemoryRefused(f"`scope` is {scope!r}: say user or project. Nothing was changed.")
        kind = TARGETS[target]
        if team and kind in SHARED_KINDS:
            shared_with = name_of(project) if scope == "project" else EVERYWHERE
            return place_in(team_base, kind, shared_with)
        if scope == "project" and kind != "soul":
            return f"{base}/{kind}/{project.hash}"
        return f"{base}/{kind}"

    return Layout(
        facts=lambda project: places(FACT_KINDS, project),
        records=lambda project: places(("summary",), project),
        format_of=lambda place: None,
        place_of=place_of,
        label=label,
        title=lambda place: {"soul": "Soul", "rule": "Rules"}.get(kind_of(place), "Notes"),
        kind_of=kind_of,
        is_shared=lambda place: bool(team) and place.startswith(f"{team_base}/"),
    )


def name_of(project: Project) -> str:
    """What a project is called on every machine; without a repository's address the hash of its
    path, which means nothing elsewhere."""
    return repository_name(project.root) or project.hash


def place_in(base: str, kind: StatementKind, scope: str) -> str:
    """The place below a base for a scope: everywhere, or a project's name."""
    return f"{base}/{kind}" if scope == EVERYWHERE else f"{base}/{kind}/{quote(scope, safe='')}"


def scope_of(place: str) -> str:
    """The scope of a place of a team."""
    return unquote(place.split("/")[2]) if place.count("/") > 1 else EVERYWHERE


def kind_of(place: str) -> StatementKind:
    return TARGETS.get("".join(place.split("/")[1:2]), "log")


def label(place: str) -> str:
    return f"{kind_of(place)}{' (project)' if place.count('/') > 1 else ''}"


# ── lifetimes ────────────────────────────────────────────────────────────────────────────────────


def expiry(now: datetime, ttl_days: int | None) -> str:
    """When a note expires, as a time; "" for never. Raises: MemoryRefused for no lifetime."""
    if ttl_days is None:
        return ""
    if isinstance(ttl_days, bool) or not isinstance(ttl_days, int) or ttl_days < 1:
        raise MemoryRefused(
            f"ttl_days is {ttl_days!r}: give whole days from 1 on, or leave it out for a note "
            "that never expires. Nothing was changed."
        )
    return timestamp(now + timedelta(days=min(ttl_days, MAX_TTL_DAYS)))


def expires_at(note: Statement) -> str:
    """When a note expires, as a time; "" for never."""
    return str(note.details.get("expires_at", ""))


def is_active(note: Statement, now: datetime) -> bool:
    """Whether a note has not expired."""
    return not expires_at(note) or timestamp(now) < expires_at(note)


def stability(note: Statement) -> str:
    return str(note.details.get("stability", _DEFAULTS["stability"]))


def tags(note: Statement) -> list[str]:
    return _texts(note.details.get("tags"))


def evidence(note: Statement) -> list[str]:
    return _texts(note.details.get("evidence"))


def confidence(note: Statement) -> float:
    value = note.details.get("confidence", _DEFAULTS["confidence"])
    return float(value) if isinstance(value, int | float) else 0.0


def _texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list | tuple) else []


# ── what a note may be ───────────────────────────────────────────────────────────────────────────


def make_details(**values: Any) -> dict[str, Any]:
    """The details of a note: tags in order, each text once, without what says nothing."""
    values["tags"] = sorted({tag.strip() for tag in values.get("tags") or () if tag.strip()})
    lines = (line.strip() for line in values.get("evidence") or ())
    values["evidence"] = list(dict.fromkeys(line for line in lines if line))
    return {name: value for name, value in values.items() if value and value != _DEFAULTS.get(name)}


def check_note(note: Statement, *, is_ttl_strict: bool = False) -> None:
    """Raises: MemoryRefused that says what is wrong with a note and what would be right."""
    if fault := _fault(note, is_ttl_strict):
        raise MemoryRefused(f"{fault} Nothing was changed.")
    scan.check(note.text, max_chars=MAX_NOTE_CHARS, author=note.who)
    for text in (*tags(note), *evidence(note)):
        scan.check(text, max_chars=MAX_NOTE_CHARS, author=note.who)


def _fault(note: Statement, is_ttl_strict: bool) -> str:
    certainty, lines = confidence(note), evidence(note)
    if not note.text.strip():
        return "The text is empty: say in one sentence what to remember."
    if not (math.isfinite(certainty) and 0 <= certainty <= 1):
        return f"confidence is {certainty!r}: give a number from 0 to 1."
    if note.kind == "rule" and (certainty < MIN_RULE_CONFIDENCE or not lines):
        return (
            f"A rule needs confidence of {MIN_RULE_CONFIDENCE} or more and evidence (what showed "
            f"it, at least one line); this has {certainty:g} and {len(lines)}. Give both, or "
            "remember it as a log note."
        )
    if note.kind == "soul" and len(note.text) > MAX_SOUL_CHARS:
        return f"The soul would have {len(note.text)} characters and may have {MAX_SOUL_CHARS}."
    if note.kind == "soul" and (note.private or stability(note) != "permanent"):
        return "A soul is permanent and always shown: it cannot be volatile or sensitive."
    if stability(note) not in get_args(Stability):
        return f"stability is {stability(note)!r}: say {', '.join(get_args(Stability))}."
    if stability(note) == "permanent" and expires_at(note):
        return "A permanent note never expires: leave out ttl_days, or make it stable."
    if is_ttl_strict and stability(note) == "volatile" and not expires_at(note):
        return "A volatile note needs ttl_days (memory.notes.strict_ttl is on)."
    if len(tags(note)) > MAX_TAGS or any(len(tag) > MAX_TAG_CHARS for tag in tags(note)):
        return f"tags: at most {MAX_TAGS} of at most {MAX_TAG_CHARS} characters each. Use fewer."
    if len(lines) > MAX_EVIDENCE:
        return f"evidence: at most {MAX_EVIDENCE} lines. Keep the telling ones."
    return ""
