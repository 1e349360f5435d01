"""Where notes stand, and what a note may be. There are no files: a place is a kind of note, for
everywhere or for one project; what a note has besides its text is in its statement's details.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote

from kode.errors import MemoryRefused
from kode.git import repository_name
from kode.memory import scan
from kode.memory.policy import Addition, OpenMemory, check_choice
from kode.memory.rendering import Layout
from kode.memory.statement import Author, Statement, StatementKind, timestamp
from kode.session.record import Project
from kode.values import replace

Kind = Literal["log", "summary", "rule"]
Stability = Literal["volatile", "stable", "permanent"]
STABILITIES: tuple[Stability, ...] = get_args(Stability)
KINDS: tuple[StatementKind, ...] = ("soul", "rule", "log", "summary")
TARGETS: Mapping[str, StatementKind] = {"note": "log", **{kind: kind for kind in KINDS}}
"""What a person calls a kind of note."""
SHARED_KINDS = KINDS[1:3]
"""The kinds that a team shares."""
TEAM = "team-"
"""Precedes the key of a team in the names of its places."""
EVERYWHERE = "*"
"""The scope of notes that belong to no single project."""
MAX_NOTE_CHARS = 4_096  # about a page
MAX_SOUL_CHARS, MIN_RULE_CONFIDENCE = 4_000, 0.8  # as document 004 has them
MAX_TTL_DAYS = 36_500  # a century
_DEFAULTS: Mapping[str, Any] = {
    "stability": "stable",
    "confidence": 1.0,
    "expires_at": "",
    "tags": [],
    "evidence": [],
}


def make_layout(user: str, team: str = "") -> Layout:
    """The places of one user's notes; with a `team` (its key), new notes and rules go there."""
    base = "notes" if user == "default" else f"notes@{quote(user, safe='')}"
    team_base = f"{TEAM}{team}"

    def places(kinds: Sequence[StatementKind], project: Project) -> list[str]:
        rows = [(base, kind, scope) for kind in kinds for scope in (EVERYWHERE, project.hash)]
        shared = [kind for kind in kinds if kind in SHARED_KINDS and team]
        scopes = (EVERYWHERE, name_of(project)) if shared else ()
        rows += [(team_base, kind, scope) for kind in shared for scope in scopes]
        return [place_in(*row) for row in rows]

    def place_of(target: str, scope: str, project: Project) -> str:
        check_choice("target", target, TARGETS)
        check_choice("scope", scope, ("", "global", "user", "project"))
        kind, is_of_project = TARGETS[target], scope == "project" and target != "soul"
        if team and kind in SHARED_KINDS:
            return place_in(team_base, kind, name_of(project) if is_of_project else EVERYWHERE)
        return place_in(base, kind, project.hash if is_of_project else EVERYWHERE)

    return Layout(
        facts=lambda project: places(KINDS[:-1], project),
        records=lambda project: places(("summary",), project),
        format_of=lambda place: None,
        place_of=place_of,
        label=label,
        title=lambda place: {"soul": "Soul", "rule": "Rules"}.get(kind_of(place), "Notes"),
        kind_of=kind_of,
        is_shared=lambda place: bool(team) and place.startswith(f"{team_base}/"),
    )


def name_of(project: Project) -> str:
    """Returns a project's name on every machine or, without a repository's address, its hash."""
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


def detail(note: Statement, name: str) -> Any:
    """A detail of a note; its default where the note has none, or one of another type."""
    default = _DEFAULTS[name]
    value = note.details.get(name, default)
    value = value if isinstance(value, type(default)) else default
    return list(map(str, value)) if isinstance(value, list) else value


def is_active(note: Statement, now: datetime) -> bool:
    """Whether a note has not expired."""
    end = detail(note, "expires_at")
    return not end or timestamp(now) < end


def make_details(**values: Any) -> dict[str, Any]:
    """Makes the details of a note: tags sorted, no text twice, no empty or default values."""
    for name in ("tags", "evidence"):
        values[name] = list(dict.fromkeys(filter(None, map(str.strip, values.get(name) or ()))))
    values["tags"].sort()
    return {name: value for name, value in values.items() if value and value != _DEFAULTS.get(name)}


def new_note(memory: OpenMemory, addition: Addition, author: Author) -> Statement:
    """A note that somebody wants to add, checked. Raises: MemoryRefused."""
    values, now = dict(addition.details or {}), memory.context.now()
    ttl_days, is_person = values.pop("ttl_days", None), author.who == "user"
    if addition.target == "soul":
        values["stability"] = "permanent"
    elif addition.target == "rule" and is_person:
        values.setdefault("evidence", ["the user said so"])
    if ttl_days is not None:
        if ttl_days < 1:
            raise MemoryRefused(f"ttl_days is {ttl_days!r}: give 1 or more. Nothing was changed.")
        values.setdefault("stability", "volatile")
        values["expires_at"] = timestamp(now + timedelta(days=min(ttl_days, MAX_TTL_DAYS)))
    details = make_details(**values)
    until = addition.until or details.get("expires_at", "")[:10]
    note = memory.new_statement(replace(addition, details=details, until=until), author)
    return check_note(note)


def check_note(note: Statement) -> Statement:
    """The note. Raises: MemoryRefused that says what is wrong with it and what would be right."""
    certainty, lasts, has_end, tags, evidence = (
        detail(note, name) for name in ("confidence", "stability", "expires_at", "tags", "evidence")
    )
    size, is_soul = len(note.text), note.kind == "soul"
    is_certain = certainty >= MIN_RULE_CONFIDENCE and evidence
    faults = {
        "The text is empty: say in one sentence what to remember.": not note.text.strip(),
        f"confidence is {certainty!r}: give a number from 0 to 1.": not 0 <= certainty <= 1,
        f"A rule needs confidence of {MIN_RULE_CONFIDENCE} or more and evidence (what showed it, "
        f"at least one line); this has {certainty:g} and {len(evidence)}. Give both, or remember "
        "it as a log note.": note.kind == "rule" and not is_certain,
        f"A soul of {size} characters is over {MAX_SOUL_CHARS}: say less.": is_soul
        and size > MAX_SOUL_CHARS,
        "A soul is always shown: it is not sensitive.": is_soul and note.private,
        f"stability is {lasts!r}: say {', '.join(STABILITIES)}.": lasts not in STABILITIES,
        "A permanent note never expires: leave out ttl_days.": lasts == "permanent" and has_end,
    }
    if fault := next((fault for fault, is_wrong in faults.items() if is_wrong), ""):
        raise MemoryRefused(f"{fault} Nothing was changed.")
    for text in (note.text, *tags, *evidence):
        scan.check_text(text, max_chars=MAX_NOTE_CHARS, author=note.who)
    return note
