"""The journal of a project: lasting facts in MEMORY.md, which stands in the prompt, and an entry
for each part of a session under an ISO header in HISTORY.md and in the file of its month (UTC),
which keeps a search of it small. Where messages were dropped, the latest are recapped.
"""

import asyncio
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated

from kode import credentials
from kode.errors import MemoryRefused
from kode.memory import frame
from kode.memory.ask import cut_middle
from kode.memory.contract import Drop, DropReason, Injection, InjectReason, Turn
from kode.memory.fold import MemoryView
from kode.memory.policy import (
    Addition,
    OpenMemory,
    Policy,
    as_list_item,
    check_choice,
    describe_share,
    memory_tool,
)
from kode.memory.question import LearnedFact, consolidate
from kode.memory.rendering import LINES, SECTIONS, Layout
from kode.memory.statement import Author, Relations, Statement, session_statement, timestamp
from kode.messages import Message, calls_of, text_of
from kode.process import find_program
from kode.session.record import Project, SessionRecord
from kode.tool import ToolOutput
from kode.values import replace

TIMEOUT_S = 5.0  # for a pattern over a history of years
MAX_PATTERN_CHARS = 1_000  # more is no question
MAX_MATCHES = "2000"  # a pattern that matches everything ends here
MAX_ENTRIES, NEAREST = 50, 10  # entries that match; the nearest, if none does
SHOWN_CHARS = 1_500  # of one entry


@memory_tool(effect="memory-read", subject="query")
async def history_search(
    memory: OpenMemory,
    query: Annotated[str, "As for `grep -i`: a word, a date, or a basic regular expression"],
    limit: Annotated[int, "Entries, newest first"] = 10,
) -> ToolOutput:
    """Search the log of all earlier sessions with this user, for what was said, done or decided
    before and is not in your memory."""
    by_id = {note.id: note for note in memory.notes()}
    lines = [(id, line) for id, note in by_id.items() for line in note.text.split("\n")]
    ids = dict.fromkeys(lines[n][0] for n in await _grep_lines(query, [line for _, line in lines]))
    matches = [by_id[id] for id in reversed(ids)]
    about = f"{len(matches)} entries of the history match, the newest first"
    if not matches:
        about = "No entry holds this as it is written; here are the nearest others"
        matches = [by_id[r.text.id] for r in await memory.find(query, NEAREST, by_id.__contains__)]
    if not matches:
        text = f"No entry of the history matches: {query}. Try another, shorter word."
        return ToolOutput(text=text, summary="no match")
    shown = matches[: max(1, min(limit, MAX_ENTRIES))]
    if len(shown) < len(matches):
        about += f"; {len(shown)} are shown"
    memory.shown_notes += [note.id for note in shown]
    body = "\n\n".join(cut_middle(memory.note_text(note), SHOWN_CHARS) for note in shown)
    outside = any(note.source for note in shown)
    return ToolOutput(
        text=frame.wrap(f"{about}. {frame.NOTES}", body),
        summary=f"{len(matches)} entries",
        untrusted="a session that read outside text" if outside else "",
    )


async def _grep_lines(pattern: str, lines: Iterable[str]) -> list[int]:
    """Returns the indices of the matching lines. It runs grep itself, which no pattern can hang.
    Raises: MemoryRefused for a pattern that grep rejects, or that takes too long."""
    if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern:
        raise MemoryRefused("Give a pattern of 1 to 1,000 characters: a word or two to look for.")
    if (program := find_program("grep")) is None:
        raise MemoryRefused("grep is not installed, which searches the history: install it.")
    command = [program, "-i", "-n", "-a", "-m", MAX_MATCHES, "-e", pattern]
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            input="".join(f"{line}\n" for line in lines).encode(errors="replace"),
            capture_output=True,
            env={"LC_ALL": "C.UTF-8"},  # folds case beyond ASCII
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise MemoryRefused(
            f"The pattern took longer than {TIMEOUT_S:g} s. Look for a plain word instead."
        ) from None
    if done.returncode > 1:
        why = done.stderr.decode(errors="replace").strip().removeprefix("grep: ")
        raise MemoryRefused(f"grep refuses this pattern ({why}). Escape what is meant as is.")
    return [int(row.partition(b":")[0]) - 1 for row in done.stdout.split(b"\n") if row]


MEMORY, HISTORY = "MEMORY.md", "HISTORY.md"
FILES = {"memory": MEMORY, "history": HISTORY}  # by target
_STAMP = re.compile(r"## (\d{4}-\d{2})-\d{2}T[0-9:.]+Z$", re.MULTILINE)
"""The header of an entry, with its month."""
RAW = "[raw-fallback]"
"""Begins the entry of a part of a session that no model has summarized."""
RAW_MESSAGES, LINE_CHARS = 10, 200  # as the document has it
SHOWN_OVER_LIMIT = 4  # times the limit: the most that is shown of a memory edited far over it


class JournalPolicy(Policy):
    tools = (history_search,)

    def set_up(self) -> None:
        self._journal = self.settings.journal
        self.layout = make_layout(self._journal.max_memory_size)
        self.message_window = self._journal.memory_window
        self._half = max(1, self._journal.memory_window // 2)
        """How many messages stay when the window is full."""

    def prompt(self, memory: OpenMemory, reason: InjectReason) -> Injection:
        place = place_in(memory.store.project, MEMORY)
        limit = SHOWN_OVER_LIMIT * self._journal.max_memory_size
        text = frame.cut_lines(memory.describe_file(place), limit)
        body = f"── {MEMORY} ──{text}" if text else ""
        return self.injection(reason, frame.wrap(frame.FACTS, body))

    def note(self, record: SessionRecord, narrative: str, facts: Sequence[str]) -> Statement:
        text, place = format_entry(narrative, record.ended_at), place_in(record.project, HISTORY)
        details = {"messages": record.end, "raw": narrative.startswith(RAW)}
        return session_statement(record, place, text, kind="episode", details=details)

    def fact(self, fact: LearnedFact, record: SessionRecord) -> Statement:
        place = place_in(record.project, MEMORY)
        return session_statement(record, place, LINES.fit_text(f"- {fact.text}"))

    def draft(self, memory: OpenMemory, addition: Addition, author: Author) -> Statement:
        """Makes a line of MEMORY.md a list item, and gives an entry of the history its time."""
        text = as_list_item(addition.text.strip())
        if addition.target == "history" and text:
            text = format_entry(addition.text, memory.context.now())
        return memory.new_statement(replace(addition, text=text), author)

    def is_worth_asking(self, record: SessionRecord) -> bool:
        return self.settings.llm_consolidate and bool(record.messages)

    def part_to_sum_up(self, view: MemoryView, record: SessionRecord) -> SessionRecord:
        """Returns the part after the newest entry by a model: no message is summarized twice."""
        done = (note.details for note in _list_entries(view, record) if not note.details.get("raw"))
        end = max((details["messages"] for details in done), default=0)
        return replace(record, messages=record.messages[end:], skipped=end)

    def replaced_notes(self, view: MemoryView, record: SessionRecord) -> list[Statement]:
        return [note for note in _list_entries(view, record) if note.details.get("raw")]

    def record_without_model(self, view: MemoryView, record: SessionRecord) -> str:
        """Returns the latest messages, each cut to a line."""
        lines = _shorten_messages(record.messages)[-RAW_MESSAGES:]
        return "\n".join((f"{RAW} of session {record.id}, which has it whole", *lines))

    async def after_turn(self, memory: OpenMemory, turn: Turn) -> None:
        self.buffer = [*self.buffer, *_shorten_messages(turn.messages)][-self._half :]

    async def before_drop(
        self, memory: OpenMemory, messages: Sequence[Message], reason: DropReason
    ) -> Drop:
        """Summarizes what was said since the last summary. If the message window is full, its newer
        half stays."""
        keep, spoken = None, [n for n, message in enumerate(messages) if _is_spoken(message)]
        if reason == "window" and len(spoken) > self._journal.memory_window:
            keep = len(messages) - spoken[-self._half]
        is_done = await memory.sum_up()
        record = memory.context.session(memory.context.session_id or "")
        if record is None:
            return Drop(keep=keep, done=is_done)
        if not is_done:
            await self._add_raw_entry(memory, record)
        entries = _list_entries(memory.store.view(), record)
        has_recap = keep is not None and is_done and bool(entries)
        recap = entries[-1].text.partition("\n")[2].strip() if has_recap else None
        return Drop(keep=keep, recap=recap, done=is_done)

    async def after_learning(self, memory: OpenMemory) -> None:
        """Lets the model consolidate a MEMORY.md over its limit; a failure becomes a notice."""
        place = place_in(memory.store.project, MEMORY)
        size = len((memory.store.read_text(place) or "").encode(errors="replace"))
        if size > self._journal.max_memory_size and memory.model.usable:
            timeout_s = self._journal.consolidation_timeout_s
            try:
                await consolidate(memory, place, memory.visible_facts([place]), timeout_s=timeout_s)
            except MemoryRefused as error:
                memory.warn(f"{MEMORY} is over its limit and was not consolidated: {error}")

    async def _add_raw_entry(self, memory: OpenMemory, record: SessionRecord) -> None:
        """Adds the latest messages to the history, until the session can be summarized."""
        view = memory.store.view()
        part = self.part_to_sum_up(view, record)
        ends = [note.details["messages"] for note in _list_entries(view, record)]
        if part.messages and part.end not in ends:
            note = self.note(part, self.record_without_model(view, part), ())
            replaced = self.replaced_notes(view, record)
            relations = Relations(outdated=tuple((raw.id, note.id) for raw in replaced))
            await memory.store.add(memory.hold_back(note), relations=relations, kind="raw")


def make_layout(limit_bytes: int) -> Layout:
    """`limit_bytes`: the size of MEMORY.md in UTF-8 from which it is consolidated."""
    return Layout(
        facts=lambda project: [place_in(project, MEMORY)],
        records=lambda project: [place_in(project, HISTORY)],
        format_of=lambda place: LINES if is_memory(place) else SECTIONS,
        place_of=_place_of,
        label=lambda place: place.rpartition("/")[2],
        title=lambda place: "Long-term Memory" if is_memory(place) else place,
        fill=lambda place, text: describe_share(
            len(text.encode(errors="replace")), limit_bytes * is_memory(place), "bytes"
        ),
        kind_of=lambda place: "fact" if is_memory(place) else "episode",
        files_of=_files_of,
    )


def place_in(project: Project, name: str) -> str:
    return f"journal/{project.hash}/{name}"


def is_memory(place: str) -> bool:
    return place.endswith(MEMORY)


def format_entry(text: str, at: datetime) -> str:
    """A text as an entry of the history: one section under its time."""
    return SECTIONS.fit_text(f"## {timestamp(at.astimezone(UTC))}\n\n{text.strip()}")


def _place_of(target: str, scope: str, project: Project) -> str:
    check_choice("target", target, FILES)
    check_choice("scope", scope, ("", "project"))
    return place_in(project, FILES[target])


def _files_of(place: str, statement: Statement | None) -> Sequence[str]:
    match = _STAMP.match(statement.text) if statement and not is_memory(place) else None
    return [place, place.replace(HISTORY, f"HISTORY-{match[1]}.md")] if match else [place]


def _list_entries(view: MemoryView, record: SessionRecord) -> list[Statement]:
    """Returns the entries of the history on a session, including those that wait for approval."""
    place = place_in(record.project, HISTORY)
    notes = (*view.current(place), *view.find_waiting())
    of_session = (note for note in notes if note.place == place and note.session == record.id)
    return [note for note in of_session if note.who == "session"]


def _is_spoken(message: Message) -> bool:
    """Whether a message counts for the window: one of the person, or a final answer."""
    return message.role != "tool" and bool(text_of(message).strip()) and not calls_of(message)


def _shorten_messages(messages: Sequence[Message]) -> list[str]:
    """What the person and the model said, one short line each."""
    return [
        f"{message.role}: {' '.join(credentials.redact(text_of(message)).split())[:LINE_CHARS]}"
        for message in messages
        if _is_spoken(message)
    ]
