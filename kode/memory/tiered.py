"""The tiered system: facts about the user and the environment, global or of one project, in the
prompt and in the `memory` tool; recent turns, kept in the session; and a file for each note.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import PurePath
from typing import Annotated, Any, Literal, get_args

from kode import durable
from kode.errors import MemoryRefused
from kode.memory import digest, frame
from kode.memory.contract import Injection, InjectReason, Turn
from kode.memory.policy import (
    Addition,
    OpenMemory,
    Policy,
    Source,
    check_choice,
    describe_outcome,
    describe_share,
    memory_tool,
)
from kode.memory.question import LearnedFact, consolidate
from kode.memory.rendering import FACTS, WHOLE, Layout
from kode.memory.statement import Amendment, Statement, session_statement, timestamp
from kode.messages import shorten
from kode.session.record import Project, SessionRecord
from kode.tool import Effect, ToolOutput

Target = Literal["user", "env"]
Scope = Literal["global", "project"]
TARGETS: tuple[Target, ...] = get_args(Target)
TITLES = {"user": "User Profile", "env": "Environment"}
_EPISODES = "episodes/"
_FRONT = re.compile(r"---\n(?:.*\n)*?---\n")


def make_layout(limits: Mapping[str, int]) -> Layout:
    """`limits`: how many characters the facts of each target may have, the archive not counted."""

    def check(name: str, before: str, after: str) -> None:
        limit = limits.get(target_of(name), 0)
        if is_episode(name) or "/archive/" in name or len(after) <= max(limit, len(before)):
            return
        raise MemoryRefused(
            f"{label(name)} would have {len(after)} characters, over its limit of {limit}; it has "
            f"{len(before)} now ({len(FACTS.texts(before))} entries). Nothing was changed. Make "
            "room, then try again: `archive` what is seldom needed, `consolidate`, or `remove` "
            "what is wrong."
        )

    def fill(place: str, text: str) -> str:
        limit = 0 if is_episode(place) else limits[target_of(place)]
        return describe_share(len(text), limit, "characters")

    return Layout(
        facts=lambda project: [
            f"{folder}/{target}.md"
            for target in TARGETS
            for folder in ("facts", f"project-facts/{project.hash}")
        ],
        records=lambda project: [f"{_EPISODES}*.md"],
        format_of=lambda place: WHOLE if is_episode(place) else FACTS,
        place_of=place_of,
        label=label,
        title=lambda place: TITLES.get(target_of(place), place),
        kind_of=lambda place: "episode" if is_episode(place) else "fact",
        files_of=_files_of,
        check=check,
        fill=fill,
        derive=_make_front_matter,
    )


def place_of(target: str, scope: str, project: Project) -> str:
    """Returns the file of facts for a target, of the project or for everywhere; by default, facts
    about the environment belong to the repository, if any. Raises: MemoryRefused."""
    check_choice("target", target, TARGETS)
    check_choice("scope", scope, ("", *get_args(Scope)))
    is_of_project = scope == "project" or (not scope and target == "env" and project.in_repository)
    return f"project-facts/{project.hash}/{target}.md" if is_of_project else f"facts/{target}.md"


def target_of(place: str) -> str:
    return PurePath(place).stem


def is_episode(place: str) -> bool:
    return place.startswith(_EPISODES)


def is_of_project(place: str) -> bool:
    return place.startswith("project-facts/")


def label(place: str) -> str:
    name = place if is_episode(place) else target_of(place)
    return f"{name} (project)" if is_of_project(place) else name


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    if is_episode(place):
        return (place,)
    archive = "/archive/".join(place.rsplit("/", 1))
    if statement is None:
        return (place, archive)
    return (archive,) if statement.state == "archived" else (place,)


def _make_front_matter(name: str, text: str, statements: Sequence[Statement], template: str) -> str:
    """Returns a note's text with new front matter, in which the person's own lines stay."""
    if not is_episode(name):
        return text
    match = _FRONT.match(text)
    body = text[match.end() :] if match else text
    if not statements:
        return body if body.strip() else ""
    note = statements[0]
    lines = match[0].split("\n")[1:-2] if match else []
    values = dict(line.partition(": ")[::2] for line in lines) | {
        "session_id": note.session or target_of(name),
        "turns": str(note.turn),
        "created_at": str(note.details.get("created_at", note.claimed_at)),
        "updated_at": note.claimed_at,
        "project": str(note.details.get("path", "")),
        "untrusted": f"approved, from {note.source}" if note.source else "",
    }
    head = "".join(f"{key}: {value}\n" for key, value in values.items() if value)
    return f"---\n{head}---\n{body}"


Action = Literal["add", "replace", "remove", "archive", "consolidate", "read", "search", "episodes"]
MAX_HITS = 8  # about 600 tokens
MAX_LISTED = 20  # one line each


def _effect_of(arguments: Mapping[str, Any]) -> Effect:
    is_read = arguments.get("action") in ("read", "search", "episodes")
    return "memory-read" if is_read else "memory"


@memory_tool(effect="memory", effect_of=_effect_of, subject="action", name="memory")
async def use_memory(
    memory: OpenMemory,
    action: Action = "add",
    target: Annotated[
        Target | None, "user: who they are, what they want; env: project and machine"
    ] = None,
    content: Annotated[str, "the fact, for add and replace"] = "",
    old_text: Annotated[str, "part of the one entry to replace, remove or archive"] = "",
    query: Annotated[
        str, "words to search facts and past sessions; for episodes a session id"
    ] = "",
    quote: Annotated[
        str,
        "the user's exact words, only if they state this themselves as true: not a question, not "
        "what others say",
    ] = "",
    source: Source = "",
    since: Annotated[str, "version or day from which it holds"] = "",
    until: Annotated[str, "its last day, YYYY-MM-DD"] = "",
    scope: Annotated[Scope | None, "default: user global, env project"] = None,
) -> ToolOutput:
    """Facts kept across sessions; all current ones are in the system prompt. Save, in one short
    sentence, what will still be true and useful next week: what the user prefers or corrects, how
    the project is built, tested and run. Not the task at hand, nor what the repository says; no
    secrets. A fact that changed: replace, not add."""
    text, store = query or content or old_text, memory.store
    match action:
        case "read":
            return _read_facts(memory)
        case "search":
            return await _search_facts(memory, text)
        case "episodes":
            return _show_episodes(memory, text)
        case "consolidate":
            place = place_of(target or "", scope or "", store.project)
            if not memory.settings.llm_consolidate:
                raise MemoryRefused(
                    "Consolidating by a model is off (memory.llm_consolidate). Replace or remove "
                    "single entries instead."
                )
            outcome = await consolidate(memory, place, memory.visible_facts([place]))
            return describe_outcome(memory, memory.announce(outcome), memory.describe_fill(place))
        case "remove" | "archive":
            id = store.find(old_text or content, target or "").id
            if action == "remove":
                outcome = await store.forget(id, memory.author())
            else:
                amendment = Amendment(state="archived")
                outcome = await store.amend(id, amendment, memory.author(), "archive")
            return describe_outcome(memory, memory.announce(outcome))
    author, remark = memory.model_author(quote, source)
    if action == "replace":
        old = store.find(old_text, target or "")
        memory.check_replaced(old, content, old_text)
        outcome = await memory.save(store.new_version(old, content, author), old=old)
    else:
        addition = Addition(
            target=target or "", text=content, scope=scope or "", since=since, until=until
        )
        outcome = await memory.save(memory.new_statement(addition, author))
    return describe_outcome(memory, outcome, remark)


def _read_facts(memory: OpenMemory) -> ToolOutput:
    facts, sections = memory.visible_facts(), list[str]()
    for place in memory.store.fact_places():
        texts = [memory.describe(fact) for fact in facts if fact.place == place]
        sections.append(
            f"── {memory.describe_fill(place)} ──\n" + ("\n§\n".join(texts) or "(empty)")
        )
    text = "\n\n".join(sections)
    memory.mark_shown(frame.escape_frame(text), facts)
    return ToolOutput(text=frame.wrap(frame.FACTS, text), summary="facts")


async def _search_facts(memory: OpenMemory, query: str) -> ToolOutput:
    if not query.strip():
        raise MemoryRefused("`search` needs `query`: a few words of what you look for.")
    hits = await memory.search(query, MAX_HITS)
    if not hits:
        return ToolOutput(text=f"No matching fact or note for: {query}", summary="no match")
    listed = "\n\n".join(f"[{hit.where}, {hit.match}] {hit.text}" for hit in hits)
    memory.mark_shown(frame.escape_frame(listed), memory.store.statements())
    about = f"What memory has on this, best first. {frame.NOTES}"
    return ToolOutput(text=frame.wrap(about, listed), summary=f"{len(hits)} hits")


def _show_episodes(memory: OpenMemory, id: str) -> ToolOutput:
    if not id.strip():
        listed = memory.list_notes(MAX_LISTED)
        return ToolOutput(text=frame.wrap(frame.NOTES, listed), summary="episodes")
    matches = [note for note in memory.notes() if target_of(note.place).startswith(id.strip())]
    if len(matches) != 1:
        fault = "Several notes" if matches else "No note"
        raise MemoryRefused(f"{fault} begin with {id!r}. `episodes` without a query lists them.")
    return ToolOutput(text=memory.show_notes(matches), summary="episodes")


MAX_LINE_CHARS, SUMMARY_CHARS = 160, 120  # as the document has them
SHOWN_OVER_LIMIT = 2  # times the limit: the most that is shown of a file edited far over it
ARCHIVED = "Archived facts that may bear on this request."


class TieredPolicy(Policy):
    tools = (use_memory,)
    keeps_unquoted_facts = False  # the model has a tool to keep what it finds

    def set_up(self) -> None:
        settings = self.settings
        self._limits = {"user": settings.facts_limit_user, "env": settings.facts_limit_env}
        self.layout = make_layout(self._limits)

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        """Separates facts by blank lines, so that a new one changes no other lines."""
        facts, sections = memory.visible_facts(), list[str]()
        for place in dict.fromkeys(fact.place for fact in facts):
            where = ", this project only" if is_of_project(place) else ""
            lines = (memory.describe(fact) for fact in facts if fact.place == place)
            limit = SHOWN_OVER_LIMIT * self._limits[target_of(place)]
            text = frame.cut_lines("\n\n".join(lines), limit)
            sections.append(f"── {self.layout.title(place)}{where} ──\n\n{text}")
        body = "\n\n".join(sections)
        memory.mark_shown(frame.escape_frame(body), facts)
        return self.injection(reason, frame.wrap(frame.FACTS, body))

    async def recall(self, memory: OpenMemory, turn: Turn) -> str:
        """Returns related archived facts and notes; for the first message, also the latest one."""
        notes, archive = memory.notes(), memory.archived_facts()
        if not notes and not archive:
            return ""
        here = memory.store.project.hash
        latest = [note for note in notes if note.project == here][-1:] if turn.number == 1 else []
        related = memory.find_related(turn.text, (*notes, *archive))
        facts = [fact for fact in related if not is_episode(fact.place)]
        memory.shown_notes += [fact.id for fact in facts]
        archived = "\n\n".join(map(memory.describe, facts))
        memory.mark_shown(frame.escape_frame(archived), facts)
        notes = [*latest, *(note for note in related if note not in (*facts, *latest))]
        parts = (frame.wrap(ARCHIVED, archived), memory.show_notes(notes))
        return "\n\n".join(filter(None, parts))

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        count = self.settings.buffer_lines if self.settings.buffer_enabled else 0
        if count and turn.messages:
            clock = memory.context.now().strftime("%H:%M")
            lines = digest.summarize_turn(turn.messages, clock, MAX_LINE_CHARS)
            self.buffer = [*self.buffer, *lines][-count:]

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        lines = [f"- {' '.join(fact.split())}" for fact in facts]
        text = "\n".join((narrative, *(("", "## Facts", *lines) if lines else ())))
        started = timestamp(record.started_at.astimezone(UTC))
        return session_statement(
            record,
            f"episodes/{record.id}.md",
            WHOLE.fit_text(text),
            kind="episode",
            project=record.project.hash,
            details={"created_at": started, "path": str(record.project.root)},
        )

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        place = place_of("user" if fact.about == "user" else "env", "", record.project)
        return session_statement(record, place, fact.text)

    async def after_learning(self, memory: OpenMemory) -> None:
        """Writes the list of notes for other programs. It may be deleted at any time."""
        rows = [
            {
                "session_id": note.session or target_of(note.place),
                "turns": note.turn,
                "created_at": note.details.get("created_at", note.claimed_at),
                "summary": shorten(note.text, SUMMARY_CHARS),
            }
            for note in memory.notes()
        ]
        path = memory.context.root / "episodes" / "index.json"
        data = f"{json.dumps(rows, ensure_ascii=False, indent=0)}\n".encode(errors="replace")
        if path.parent.is_dir() and (not path.exists() or path.read_bytes() != data):
            durable.replace_file(path, data)

    async def maintain(self, memory: OpenMemory) -> None:
        await self.after_learning(memory)
