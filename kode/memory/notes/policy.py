"""Notes: the soul, rules and recent summaries in the prompt, others with a message; and five tools
of the model, to keep, find, change and forget them.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate
from typing import Annotated, Literal

from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.memory import digest, frame, scan
from kode.memory.contract import Injection, InjectReason, Turn
from kode.memory.fold import MemoryView
from kode.memory.notes import layout
from kode.memory.notes.team import Team, open_remote
from kode.memory.policy import Addition, OpenMemory, Policy, describe_outcome, memory_tool
from kode.memory.question import LearnedFact
from kode.memory.rendering import strip_bullet
from kode.memory.statement import (
    Amendment,
    Author,
    MemoryChange,
    Statement,
    StatementKind,
    session_statement,
    timestamp,
)
from kode.memory.store import MemoryStore
from kode.messages import plural
from kode.session.record import Project, SessionRecord
from kode.tool import ToolOutput
from kode.values import replace

DEFAULT_K, MAX_K = 8, 20
"""How many notes one answer of `recall` has."""


@memory_tool(effect="memory", subject="content")
async def remember(
    memory: OpenMemory,
    content: Annotated[str, "one sentence, no secrets"],
    kind: Annotated[layout.Kind | None, "rule: in every prompt"] = None,
    tags: Annotated[list[str] | None, "to find it by"] = None,
    stability: Annotated[layout.Stability, "permanent never expires"] = "stable",
    ttl_days: Annotated[int | None, "it expires after"] = None,
    confidence: Annotated[float, "0 to 1; a rule: 0.8 or more"] = 1.0,
    evidence: Annotated[
        list[str] | None, "the user's exact words that state it, path:line; a rule needs one"
    ] = None,
    sensitivity: Annotated[
        Literal["normal", "sensitive"], "sensitive: no model sees it"
    ] = "normal",
    scope: Annotated[Literal["user", "project"] | None, "project: only here"] = None,
) -> ToolOutput:
    """Keep a note for later: what the user decides or prefers."""
    addition = Addition(
        target=kind or "log",
        text=content,
        scope=scope or "",
        private=sensitivity == "sensitive",
        details={
            "tags": tags,
            "evidence": evidence,
            "confidence": confidence,
            "stability": stability,
            "ttl_days": ttl_days,
        },
    )
    note = layout.new_note(memory, addition, _author(memory, evidence or ()))
    return describe_outcome(memory, await memory.save(note))


@memory_tool(effect="memory-read", subject="query", parallel=True)
async def recall(
    memory: OpenMemory,
    query: Annotated[str, "a few words"],
    k: Annotated[int, "how many"] = DEFAULT_K,
    tags: Annotated[list[str] | None, "with one of these"] = None,
) -> ToolOutput:
    """Search the notes; gives their ids."""
    if not query.strip():
        raise MemoryRefused("`query` is empty: give a few words of what you look for.")
    values = {
        note.id: note
        for note in visible_notes(memory, *layout.KINDS)
        if not tags or {*tags} & {*layout.detail(note, "tags")}
    }
    ranked = await memory.find(query, max(1, min(k, MAX_K)), values.__contains__)
    notes = [values[result.text.id] for result in ranked]
    if not notes:
        return ToolOutput(text=f"No note matches: {query}", summary="no match")
    listed = "\n\n".join(_with_id(memory, note) for note in notes)
    memory.mark_shown(frame.escape_frame(listed), notes)
    about = f"Notes that match, best first. {frame.NOTES}"
    return ToolOutput(text=frame.wrap(about, listed), summary=f"{len(notes)} notes")


@memory_tool(effect="memory", subject="id")
async def update_memory(
    memory: OpenMemory,
    id: Annotated[str, "from recall"],
    content: Annotated[str, "the new text"],
    tags: Annotated[list[str] | None, "replace its tags"] = None,
    evidence: Annotated[str, "as for remember"] = "",
) -> ToolOutput:
    """Replace a note."""
    old = _find_note(memory, id)
    memory.check_replaced(old, content, "")
    new = memory.store.new_version(old, content, _author(memory, [evidence]))
    values = {} if tags is None else {"tags": tags}
    values |= {"evidence": [evidence]} if evidence else {}
    details = layout.make_details(**{**old.details, **values})
    new = layout.check_note(replace(new, details=details))
    if new.text != old.text:
        return describe_outcome(memory, await memory.save(new, old=old))
    amendment = Amendment(details={"tags": layout.detail(new, "tags")})
    outcome = await memory.store.amend(old.id, amendment, memory.author(), "retag")
    return describe_outcome(memory, memory.announce(outcome))


@memory_tool(effect="memory", subject="content")
async def update_soul(memory: OpenMemory, content: Annotated[str, "all of it"]) -> ToolOutput:
    """Replace who you are, only at the user's wish."""
    new = layout.new_note(memory, Addition(target="soul", text=content), memory.author())
    if old := soul_of(memory):
        memory.check_replaced(old, content, "")
    return describe_outcome(memory, await memory.save(new, old=old))


@memory_tool(effect="memory", subject="id")
async def forget(
    memory: OpenMemory,
    id: Annotated[str, "from recall"],
    bring_back: Annotated[bool | None, "restore what it replaced"] = None,
) -> ToolOutput:
    """Delete a note."""
    note, store = _find_note(memory, id), memory.store
    is_back = memory.settings.notes.forget_brings_back if bring_back is None else bring_back
    if is_back and note.replaces:  # as before it was written
        outcome = await store.undo(store.view().entries[note.id].change.id)
    else:
        outcome = await store.forget(note.id, memory.author())
    return describe_outcome(memory, memory.announce(outcome))


TOOLS = (remember, recall, update_memory, update_soul, forget)


def visible_notes(memory: OpenMemory, *kinds: StatementKind) -> list[Statement]:
    """The notes of these kinds that a model may see, newest first, also two in conflict."""
    notes, now = (*memory.visible_facts(), *memory.notes()), memory.context.now()
    chosen = [note for note in notes if note.kind in kinds and layout.is_active(note, now)]
    return sorted(chosen, key=lambda note: (note.claimed_at, note.id), reverse=True)


def describe_note(memory: OpenMemory, note: Statement) -> str:
    """A note as a model sees it: what was done with its project, what holds with its doubts."""
    return memory.note_text(note) if note.kind == "summary" else memory.describe(note)


def soul_of(memory: OpenMemory) -> Statement | None:
    """The soul that counts; None until one is written: the system prompt says who kode is."""
    second = [second for _, second in memory.store.view().conflicts()]
    return next((soul for soul in visible_notes(memory, "soul") if soul not in second), None)


def _author(memory: OpenMemory, evidence: Sequence[str]) -> Author:
    """The model, with the evidence that counts: what the person stated here, and lines of code."""
    authors = [memory.model_author(line, line)[0] for line in evidence]
    cited = next((author for author in authors if author.source), memory.author())
    return cited._replace(quote=next((author.quote for author in authors if author.quote), ""))


def _find_note(memory: OpenMemory, id: str) -> Statement:
    """The note that a model names by its id. Raises: MemoryRefused."""
    note = memory.store.find(id.strip().strip("[]"))
    if not memory.store.is_here(note.place):
        raise MemoryRefused(f"There is no note {id} here. `recall` gives the ids.")
    if note.kind == "soul":
        raise MemoryRefused("The soul is changed with update_soul. Nothing was changed.")
    return note


def _with_id(memory: OpenMemory, note: Statement) -> str:
    """A note with its id, for a model that wants to change it."""
    lasts, tags = layout.detail(note, "stability"), layout.detail(note, "tags")
    end = f" until {day}" if (day := layout.detail(note, "expires_at")[:10]) else ""
    head = f"[{note.id}] ({note.kind}, {lasts}{end}){''.join(f' #{tag}' for tag in tags)}"
    return f"{head}\n{describe_note(memory, note)}"


# ── policy ───────────────────────────────────────────────────────────────────────────────────────

MAX_RULES, MAX_RULE_CHARS = 10, 10_000
MAX_SUMMARIES, MAX_SUMMARY_CHARS = 5, 5_000
"""Limits of the prompt; a notice says how many rules do not fit."""
MAX_PACK, MAX_PACK_CHARS = 20, 6_000
"""Limits of the notes that are sent with a message."""
COMMAND_TTL_DAYS, JOB_TTL_DAYS = 30, 7  # of what the person asked to remember; of a turn's work
MERGE_AFTER, TIDY_EVERY, BATCH = timedelta(days=7), timedelta(days=1), 5
"""As document 004 has them."""
MERGE, PRUNE = "merge", "prune"
"""The kinds of the changes of maintenance."""
_COMMAND = re.compile(r"\s*remember[:,]?\s+\S", re.IGNORECASE)
"""A message with this beginning asks to be kept; elsewhere the word has no such meaning."""
Line = tuple[Statement, str]
"""A note and how it is shown: `[rule] Ask before pushing (2026-03-01)`."""


class NotesPolicy(Policy):
    tools = TOOLS
    keeps_unquoted_facts = False  # the model has a tool to keep what it finds

    def set_up(self) -> None:
        remote = open_remote(self.settings.notes)
        self.team = Team(remote) if remote else None
        self.layout = layout.make_layout(self.settings.notes.user, remote.key if remote else "")

    async def follow(self, memory: OpenMemory, wait_s: float) -> None:
        if self.team and not memory.context.read_only:
            await self.team.follow(memory, wait_s)

    async def status(self, memory: OpenMemory) -> list[str]:
        return await self.team.status(memory) if self.team else []

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """The session's own messages say what its work was, so its summaries are left out."""
        if reason in ("compacted", "trimmed"):
            memory.shown_notes.clear()
        all_rules, session = visible_notes(memory, "rule"), memory.context.session_id
        rules = _choose_lines(memory, all_rules[:MAX_RULES], MAX_RULE_CHARS)
        if left_out := len(all_rules) - len(rules):
            limit = f"{MAX_RULES} of {MAX_RULE_CHARS:,} characters together"
            fault = f"{plural(left_out, 'rule')} do not fit into the prompt, which holds {limit}."
            memory.warn(f"{fault} Ask kode to merge some.")
        summaries = [note for note in visible_notes(memory, "summary") if note.session != session]
        recent = _choose_lines(memory, summaries[:MAX_SUMMARIES], MAX_SUMMARY_CHARS)
        souls = [(soul, strip_bullet(soul.text))] if (soul := soul_of(memory)) else []
        body = _join(("Soul", souls), ("Rules", rules))
        work = _join(("Recent summaries", recent))
        shown = [note for note, _ in (*souls, *rules, *recent)]
        memory.shown_notes += [note.id for note in shown if note.id not in memory.shown_notes]
        memory.mark_shown(frame.escape_frame(f"{body}\n{work}"), shown)
        return self.injection(reason, frame.wrap(frame.FACTS, body), frame.wrap(frame.NOTES, work))

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """At most 20 notes: those that bear on the message, and with the first one the newest."""
        visible = visible_notes(memory, "log", "summary", "rule")
        notes = memory.find_related(turn.text, visible) + (visible if turn.number == 1 else [])
        fresh = {note.id: note for note in notes if note.id not in memory.shown_notes}
        pack = _choose_lines(memory, list(fresh.values())[:MAX_PACK], MAX_PACK_CHARS)
        memory.shown_notes += [note.id for note, _ in pack]
        facts = "\n\n".join(line for note, line in pack if note.kind != "summary")
        work = "\n\n".join(line for note, line in pack if note.kind == "summary")
        memory.mark_shown(frame.escape_frame(facts), [note for note, _ in pack])
        parts = ("## Memory Context", frame.wrap(frame.FACTS, facts), frame.wrap(frame.NOTES, work))
        return "\n".join(filter(None, parts)) if pack else ""

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        author, view = memory.author("session"), memory.store.view()
        place = (author.session, author.turn)
        changes = (change for change in view.changes if (change.session, change.turn) == place)
        if _COMMAND.match(turn.text) and not any(c.add and c.who == "model" for c in changes):
            await self._keep_command(memory, turn)
        text, scope = digest.record_of(turn.messages), _scope_of(memory.store.project)
        if not text or scan.find_danger(text):
            return
        job = f"{author.session or 'session'}#{turn.number}"
        details = {"tags": ["job"], "ttl_days": JOB_TTL_DAYS, "job_id": job}
        is_private = any(n.private and (n.session, n.turn) == place for n in view.statements())
        addition = Addition(target="summary", text=text, scope=scope, details=details)
        note = layout.new_note(memory, replace(addition, private=is_private), author)
        outcome = await memory.store.add(memory.hold_back(note), kind="job")
        if outcome.statement:  # the session's own messages say the same
            memory.shown_notes.append(outcome.statement.id)

    async def _keep_command(self, memory: OpenMemory, turn: Turn) -> None:
        """Keeps the person's own words for a month: the model may have missed the wish."""
        details = {"tags": ["asked"], "ttl_days": COMMAND_TTL_DAYS}
        is_typed = not memory.context.tainted() or memory.verify_quote(turn.text)
        author = memory.author("user" if is_typed else "session")
        addition = Addition(target="log", text=turn.text.strip(), details=details)
        try:
            note = layout.new_note(memory, addition, author)
        except MemoryRefused as error:
            return memory.warn(str(error))
        memory.announce(await memory.store.add(memory.hold_back(note)))

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        """Makes the note on a session, which replaces the summaries of its turns."""
        text = "\n".join((narrative, *(f"- {fact}" for fact in facts)))
        details = layout.make_details(tags=["session"], job_id=record.id)
        place = self.layout.place_of("summary", _scope_of(record.project), record.project)
        return session_statement(record, place, text, kind="summary", details=details)

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        scope = "user" if fact.about == "user" else _scope_of(record.project)
        place = self.layout.place_of("log", scope, record.project)
        details = layout.make_details(evidence=[fact.quote])
        return session_statement(record, place, fact.text, kind="log", details=details)

    def draft(self, memory: OpenMemory, addition: Addition, author: Author) -> Statement:
        return layout.new_note(memory, addition, author)

    async def maintain(self, memory: OpenMemory) -> None:
        """Merges old notes and removes expired ones, once a day. Only volatile notes without a
        lifetime are merged, in batches of one place and one sensitivity, and none of a team."""
        store, now, author = memory.store, memory.context.now(), Author("session")

        def is_due(note: Statement) -> bool:
            is_old = note.claimed_at <= timestamp(now - MERGE_AFTER)
            is_mergeable = note.kind in ("log", "summary") and not self.layout.is_shared(note.place)
            is_volatile = layout.detail(note, "stability") == "volatile"
            return is_old and is_mergeable and is_volatile and not layout.detail(note, "expires_at")

        def make(view: MemoryView) -> list[MemoryChange]:
            tidied = (change.at for change in view.changes if change.kind in (MERGE, PRUNE))
            if max(tidied, default="") > timestamp(now - TIDY_EVERY):
                return []
            places = (*store.fact_places(), *store.record_places())
            notes = [note for place in places for note in view.current(place)]
            groups = defaultdict[tuple[str, bool], list[Statement]](list)
            for note in sorted(filter(is_due, notes), key=lambda note: (note.claimed_at, note.id)):
                base, _, *project = note.place.split("/")
                groups["/".join((base, "summary", *project)), note.private].append(note)
            changes = list[MemoryChange]()
            for (place, _), group in groups.items():
                for at in range(0, len(group) - 1, BATCH):  # a single note stays
                    new = _merge_notes(store, place, group[at : at + BATCH])
                    draft = store.draft(MERGE, author)
                    changes.append(replace(draft, add=(new,), end=new.replaces))
            expired = tuple(note.id for note in notes if not layout.is_active(note, now))
            return changes + ([replace(store.draft(PRUNE, author), end=expired)] if expired else [])

        if merges := [change for change in await store.commit(make) if change.add]:
            text = f"merged old notes into {len(merges)}"
            memory.context.emit(MemoryChanged(text=text, change_id=merges[-1].id))


def _scope_of(project: Project) -> str:
    """Returns the scope of what concerns a project; `user` outside a repository."""
    return "project" if project.in_repository else "user"


def _join(*sections: tuple[str, Sequence[Line]]) -> str:
    """The sections of a prompt that have lines, each below its title."""
    return "\n\n".join(
        f"── {title} ──\n" + "\n\n".join(line for _, line in lines)
        for title, lines in sections
        if lines
    )


def _choose_lines(memory: OpenMemory, notes: Sequence[Statement], max_chars: int) -> list[Line]:
    """As many notes as fit, each with its line. The first always fits."""
    lines = [(note, f"[{note.kind}] {describe_note(memory, note)}") for note in notes]
    sizes = list(accumulate(len(line) + 2 for _, line in lines))
    return lines[: max(1, sum(size <= max_chars for size in sizes))]


def _merge_notes(store: MemoryStore, place: str, notes: Sequence[Statement]) -> Statement:
    """Makes one summary from the texts of notes: as new as the newest of them, never expiring."""
    return store.new_statement(
        Author("session"),
        place,
        "\n\n".join(dict.fromkeys(note.text for note in notes)),
        claimed_at=max(note.claimed_at for note in notes),
        private=notes[0].private,
        replaces=tuple(note.id for note in notes),
        details=layout.make_details(
            tags=[tag for note in notes for tag in layout.detail(note, "tags")],
            evidence=[line for note in notes for line in layout.detail(note, "evidence")],
            confidence=min(layout.detail(note, "confidence") for note in notes),
        ),
    )
