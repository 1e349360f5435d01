"""The notes system: the soul, the rules and recent summaries in the prompt, and notes that bear on
a request with its message."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kode.contracts import Injection, InjectReason, Project, SessionRecord, Tool, Turn
from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.memory import digest, frame, scan
from kode.memory.markdown import display
from kode.memory.notes.layout import (
    check_note,
    expires_at,
    expiry,
    is_active,
    make_details,
    make_layout,
)
from kode.memory.notes.maintenance import tidy_up
from kode.memory.notes.team import Team, open_remote
from kode.memory.notes.tools import note_tools
from kode.memory.policy import Addition, OpenMemory, Policy
from kode.memory.question import LearnedFact
from kode.memory.statement import (
    Author,
    Statement,
    StatementKind,
    statement_by,
    statement_of_session,
    timestamp,
)
from kode.messages import keep_ends, plural

if TYPE_CHECKING:
    from kode.config import MemoryConfig

MAX_RULES, MAX_RULE_CHARS = 10, 10_000
"""In the prompt; what does not fit is said."""
MAX_SUMMARIES, MAX_SUMMARY_CHARS = 5, 5_000
"""In the prompt."""
MAX_PACK, MAX_PACK_CHARS = 20, 6_000
"""Of the notes beside a message."""
MAX_SHOWN_CHARS = 700
"""A longer note is cut where nobody asked for it; `recall` gives all of it."""
COMMAND_TTL_DAYS, JOB_TTL_DAYS = 30, 7
"""Of what the person asked to remember, and of what was done in a turn, as document 004 has it."""
MAX_COMMAND_CHARS = 2_000  # a message; more is a document
RULES_LEFT_OUT = (
    "(More rules do not fit and are not shown. Offer the user to merge some of them into one, with "
    "remember and forget; recall finds them.)"
)


def make_policy(settings: "MemoryConfig") -> Policy:
    return NotesPolicy(settings)


def is_command(text: str) -> bool:
    """Whether a message is the command `remember TEXT`: it begins with that word, and a text
    follows. The word anywhere else asks for nothing."""
    command, *rest = text.split(maxsplit=1) or [""]
    return bool(rest) and command.rstrip(":,").lower() == "remember"


class NotesPolicy(Policy):
    keeps_unquoted_facts = False  # the model has a tool to keep what it finds

    def __init__(self, settings: "MemoryConfig") -> None:
        super().__init__(settings)
        remote = open_remote(settings.notes)
        self.team = Team(remote) if remote else None
        self.layout = make_layout(settings.notes.user, remote.key if remote else "")
        self._in_prompt: set[str] = set()
        self._is_first_pack = True

    def tools(self, memory: OpenMemory) -> tuple[Tool, ...]:
        return note_tools(memory, self.soul, self.draft)

    async def follow(self, memory: OpenMemory, wait_s: float) -> None:
        if self.team and not memory.context.read_only:
            await self.team.follow(memory, wait_s)

    async def status(self, memory: OpenMemory) -> list[str]:
        return await self.team.status(memory) if self.team else []

    # ── what is shown ────────────────────────────────────────────────────────────────────────

    def notes(self, memory: OpenMemory, *kinds: StatementKind) -> list[Statement]:
        """The notes of these kinds that a model may see, newest first. Of two that contradict each
        other, both are among them."""
        now = memory.context.now()
        notes = [*memory.visible_facts(), *memory.notes()]
        chosen = [note for note in notes if note.kind in kinds and is_active(note, now)]
        return sorted(chosen, key=lambda note: (note.claimed_at, note.id), reverse=True)

    def soul(self, memory: OpenMemory) -> Statement | None:
        """The soul that counts; None until one is written: the system prompt says who kode is."""
        second = {second.id for _, second in memory.store.view().conflicts()}
        souls = [soul for soul in self.notes(memory, "soul") if soul.id not in second]
        return souls[0] if souls else None

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """The session's own messages say what its work was, so its summaries are left out."""
        if reason in ("compacted", "trimmed"):
            memory.shown_notes.clear()
            self._is_first_pack = True
        soul, all_rules = self.soul(memory), self.notes(memory, "rule")
        rules = self._fitting(memory, all_rules[:MAX_RULES], MAX_RULE_CHARS, MAX_RULE_CHARS)
        if left_out := len(all_rules) - len(rules):
            memory.warn(
                f"{plural(left_out, 'rule')} do not fit into the prompt, which "
                f"holds {MAX_RULES} of {MAX_RULE_CHARS:,} characters together. Ask kode to merge "
                "some."
            )
        session = memory.context.session_id
        summaries = [note for note in self.notes(memory, "summary") if note.session != session]
        recent = self._fitting(memory, summaries[:MAX_SUMMARIES], MAX_SUMMARY_CHARS)
        parts = [f"── Soul ──\n{display(soul.text)}"] if soul else []
        lines = [line for _, line in rules]
        lines += [RULES_LEFT_OUT] if left_out else []
        parts += ["── Rules ──\n" + "\n\n".join(lines)] if lines else []
        body = "\n\n".join(parts)
        work = "\n\n".join(line for _, line in recent)
        shown = [*([soul] if soul else []), *(note for note, _ in (*rules, *recent))]
        self._in_prompt = {note.id for note in shown}
        memory.mark_shown(frame.escape(f"{body}\n{work}"), shown)
        framed = [frame.wrap(frame.FACTS, body)] if body else []
        if work:
            framed.append(frame.wrap(frame.NOTES, f"── Recent summaries ──\n{work}"))
        return Injection(system="# Memory\n" + "\n".join(framed) if framed else "")

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """At most 20 notes: those that bear on the message, and with the first one the newest."""
        known = self.notes(memory, "log", "summary", "rule")
        notes = memory.find_related(turn.text, known)
        notes += known if self._is_first_pack else []
        self._is_first_pack = False
        hidden = {*self._in_prompt, *memory.shown_notes}
        fresh = {note.id: note for note in notes if note.id not in hidden}
        pack = self._fitting(memory, list(fresh.values())[:MAX_PACK], MAX_PACK_CHARS)
        memory.shown_notes += [note.id for note, _ in pack]
        facts = "\n\n".join(line for note, line in pack if note.kind != "summary")
        work = "\n\n".join(line for note, line in pack if note.kind == "summary")
        memory.mark_shown(frame.escape(facts), [note for note, _ in pack])
        parts = [frame.wrap(frame.FACTS, facts)] if facts else []
        parts += [frame.wrap(frame.NOTES, work)] if work else []
        return "\n".join(("## Memory Context", *parts)) if parts else ""

    def _fitting(
        self,
        memory: OpenMemory,
        notes: Sequence[Statement],
        max_chars: int,
        max_line_chars: int = MAX_SHOWN_CHARS,
    ) -> list[tuple[Statement, str]]:
        """As many notes as fit, each with its line: `[rule] Ask before pushing (2026-03-01)`. The
        first always fits."""
        lines, size = list[tuple[Statement, str]](), 0
        for note in notes:
            is_summary = note.kind == "summary"
            text = memory.note_text(note) if is_summary else memory.describe(note)
            line = keep_ends(f"[{note.kind}] {text}", max_line_chars)
            size += len(line) + 2
            if lines and size > max_chars:
                break
            lines.append((note, line))
        return lines

    # ── what is kept ─────────────────────────────────────────────────────────────────────────

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        if is_command(turn.text) and not _was_saved(memory, turn):
            await self._keep_command(memory, turn)
        if digest.ran_a_tool(turn.messages):
            await self._keep_job(memory, turn)

    async def _keep_command(self, memory: OpenMemory, turn: Turn) -> None:
        """The person's own words, for a month: the model may have missed the wish."""
        details = {"tags": ["asked"], "ttl_days": COMMAND_TTL_DAYS, "stability": "volatile"}
        text = keep_ends(turn.text.strip(), MAX_COMMAND_CHARS)
        context = memory.context
        is_typed = not context.tainted() or memory.verify_quote(text)
        try:
            author = memory.author("user" if is_typed else "session")
            note = self.draft(memory, Addition(target="log", text=text, details=details), author)
        except MemoryRefused as error:
            return memory.warn(str(error))
        memory.announce(await memory.store.add(memory.hold_back(note)))

    async def _keep_job(self, memory: OpenMemory, turn: Turn) -> None:
        """What was done in a turn, for a week, without a model."""
        text, session = digest.record_of(turn.messages), memory.context.session_id or ""
        if not text or scan.scan(text):
            return
        now = memory.context.now()
        details = make_details(
            tags=["job"],
            stability="volatile",
            expires_at=expiry(now, JOB_TTL_DAYS),
            job_id=f"{session or 'session'}#{turn.number}",
        )
        place = self._place_of("summary", memory.store.project)
        summary = statement_by(
            Author("session", session, turn.number),
            place,
            text,
            timestamp(now),
            kind="summary",
            project=memory.store.project.hash if memory.store.project.hash in place else "",
            details=details,
            until=details["expires_at"][:10],
            private=any(
                note.private and (note.session, note.turn) == (session, turn.number)
                for note in memory.store.view().statements()
            ),
        )
        outcome = await memory.store.add(memory.hold_back(summary), kind="job")
        if outcome.statement:  # the session's own messages say the same
            memory.shown_notes.append(outcome.statement.id)

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        """It takes the place of the summaries of the session's turns."""
        text = "\n".join((narrative, *(f"- {fact}" for fact in facts)))
        details = make_details(tags=["session"], job_id=record.id)
        place = self._place_of("summary", record.project)
        return statement_of_session(record, place, text, kind="summary", details=details)

    def _place_of(self, kind: str, project: Project) -> str:
        """Of what concerns a project, where there is one."""
        return self.layout.place_of(kind, "project" if project.in_repository else "user", project)

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        place = self._place_of("log", record.project)
        if fact.about == "user":
            place = self.layout.place_of("log", "user", record.project)
        details = make_details(evidence=[fact.quote])
        return statement_of_session(record, place, fact.text, kind="log", details=details)

    def draft(self, memory: OpenMemory, addition: Addition, author: Author) -> Statement:
        """A note that a person or the model wants to add, checked. Raises: MemoryRefused."""
        values, now = dict(addition.details or {}), memory.context.now()
        ttl_days = values.pop("ttl_days", None)
        if addition.target == "soul":
            values["stability"] = "permanent"
        elif ttl_days is not None and author.who == "user":
            values.setdefault("stability", "volatile")
        if addition.target == "rule" and author.who == "user":
            values.setdefault("evidence", ["the user said so"])
        details = make_details(**values, expires_at=expiry(now, ttl_days))
        note = memory.new_statement(replace(addition, details=details), author)
        if expires_at(note) and not note.until:
            note = replace(note, until=expires_at(note)[:10])
        check_note(note, is_ttl_strict=self.settings.notes.strict_ttl)
        return note

    async def maintain(self, memory: OpenMemory) -> None:
        merged = [change for change in await tidy_up(memory) if change.add]
        if merged:
            text = f"merged old notes into {len(merged)}"
            memory.context.emit(MemoryChanged(text=text, change_id=merged[-1].id))


def _was_saved(memory: OpenMemory, turn: Turn) -> bool:
    """Whether the model saved something in this turn."""
    here = (memory.context.session_id or "", turn.number)
    return any(
        change.add and (change.session, change.turn) == here and change.who == "model"
        for change in reversed(memory.store.view().changes)
    )
