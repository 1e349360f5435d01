"""The lives of sessions that the fault tests cut short: what is run, and what must be true of the
memory and the files it leaves, at any moment.

    tiered     turns, tools, facts, a compaction, a note, a trim, a clean-up
    vault      files written and patched, entries appended, the reflector, an undo
    journal    sums up at a full window and at the end, an undo
    notes      notes remembered, replaced, forgotten, the soul, summaries, an undo
    subagents  two children that write while their parent waits

The commands are those a person types. A script plays the model; everything else is real.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kode import paths
from kode.config.model import MemoryConfig
from kode.errors import KodeError
from kode.memory.contract import MemoryContext
from kode.memory.markdown import display
from kode.memory.statement import Change, Statement
from kode.memory.system import Memory, make_system
from kode.session import log
from kode.session.entries import TrimEntry
from tests.faults.kode_run import (
    OLD_SESSION,
    Event,
    Place,
    agents_of,
    call,
    count_done,
    has_printed,
    kode,
    memory_log,
    memory_view,
    missing_changes,
    missing_files,
    missing_of_session,
    newest,
    session_of,
    task,
    told_changes,
    unfit_agents,
)

Shown = Sequence[Event]
Facts = frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Life:
    """One session's life."""

    name: str
    memory: Mapping[str, Any]
    """The section of the settings."""
    commands: tuple[Sequence[Any], ...]
    """(words..., script) of each `kode run` or `continue`, or the words of another command."""
    after: Sequence[Any]
    """The script of the next start."""
    facts: Sequence[Facts]
    """What memory holds, one after the other."""
    tools: tuple[str, ...] = ()
    """A call of one of these leads from one of `facts` to the next; without them, what the session
    taught does."""
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """File of the project → what it holds, one after the other."""
    stored: tuple[Statement, ...] = ()
    """What memory holds before."""

    @property
    def names(self) -> list[str]:
        return [" ".join(w for w in words if isinstance(w, str)) for words in self.commands]

    def prepare(self, place: Place) -> None:
        place.prepare({"memory": dict(self.memory)})
        if self.stored:
            change = Change(who="model", kind="add", system=self.name, add=self.stored)
            memory_log(place).append([change])

    def argv(self, place: Place, number: int) -> list[str]:
        """A command line; `newest` stands for the id of the session."""
        words = self.commands[number]
        if isinstance(words[-1], str):
            return kode(*((newest(place) or "") if word == "newest" else word for word in words))
        return task(place, words[-1], *words[:-1])

    def argv_after(self, place: Place, *how: str) -> list[str]:
        return task(place, self.after, *(how or ("continue",)), "Are you there?")

    def missing(self, place: Place, shown: Shown) -> list[str]:
        """What was acknowledged and is not there. `shown`: every event of the commands so far."""
        faults = missing_of_session(place, shown)
        faults += missing_changes(place, shown)
        faults += missing_files(place, shown, self.versions)
        faults += _missing_agents(place, shown)
        return faults + self._missing_memory(place, shown)

    def _missing_memory(self, place: Place, shown: Shown) -> list[str]:
        """What of memory was acknowledged and is not there, or is neither what it was before the
        call that was being made nor what it became."""
        view, session = memory_view(place), session_of(shown)
        alive = list(view.statements())
        is_undoing = any(e["type"] == "command" and "undo" in e["words"] for e in shown)
        records = ("episode", "summary")
        held = frozenset(display(one.text) for one in alive if one.kind not in records)
        done = (
            count_done(shown, *self.tools)
            if self.tools
            else len(told_changes(shown, "added to MEMORY.md"))
        )
        begun = sum(e["type"] == "tool_started" and e["name"] in self.tools for e in shown)
        least, most = (0, len(self.facts)) if is_undoing else (done, begun)
        allowed = self.facts[least : (most if self.tools else len(self.facts)) + 1]
        faults = [] if held in allowed else [f"memory holds {held}, not one of {allowed}"]
        # Notes on two sessions may say the same.
        texts = Counter(
            (one.place, one.text, one.session if one.kind in records else "") for one in alive
        )
        faults += [f"{text} counts {n} times" for text, n in texts.items() if n > 1]
        if has_printed(shown, "undid") and not any(
            one.undoes for one in memory_log(place).changes()
        ):
            faults.append("the undo")
        if session is None or is_undoing or any(event["type"] == "notice" for event in shown):
            return faults
        ended = sum(e["type"] == "result" and e["status"] == "success" for e in shown)
        turns = [one.turn for one in alive if one.session == session and one.kind in records]
        waits = (place.home / "memory/pending" / self.system / session).exists()
        if max(turns, default=0) < ended and not waits:
            faults.append(f"turn {ended} neither waits nor has a note")
        return faults

    @property
    def system(self) -> str:
        return str(self.memory.get("system", "tiered"))

    def missing_of_command(self, place: Place, number: int, shown: Shown) -> list[str]:
        """What a command other than a task has said it did, and did not; what of it cannot be
        asked for again."""
        session_id = newest(place)
        match self.commands[number]:
            case ("session", "trim", *_) if has_printed(shown, "kept") and session_id:
                _, entries, _ = log.read(log.session_path(place.home, session_id))
                trimmed = any(isinstance(entry, TrimEntry) for entry in entries)
                return [] if trimmed else ["the trim"]
            case ("session", "cleanup", *_):
                again = place.run(self.argv(place, number))
                left = list((place.home / "sessions").glob(f"{OLD_SESSION}*"))
                broken = again.returncode != 0 or left
                return [f"cleaning up again: {again.stderr!r}, {left}"] if broken else []
        return []

    def unreadable(self, place: Place) -> list[str]:
        """What the contract's own functions find wrong with memory, opened for reading."""
        return asyncio.run(self._read(place, read_only=True))

    def unfit(self, place: Place) -> list[str]:
        """What a start has left undone in this life's own parts: the files follow the log, without
        a word."""
        session_id = newest(place)
        found = unfit_agents(place, session_id) if session_id else []
        return found + asyncio.run(self._read(place, read_only=False))

    async def _read(self, place: Place, *, read_only: bool) -> list[str]:
        told: list[str] = []
        system = make_system(MemoryConfig.model_validate(self.memory))
        assert isinstance(system, Memory)
        context = MemoryContext(
            root=paths.memory_folder(place.home, None),
            cwd=place.project,
            project_root=None,
            session_id=None,
            emit=lambda event: told.append(str(event)),
            ask_reply=None,
            now=lambda: datetime.now().astimezone(),
            read_only=read_only,
        )
        try:
            await system.open(context, {})
            await system.inject("start")
            await system.snapshot()
            await system.search("ships", 5)
            store = system.store
            told += [notice.text for notice in await store.reconcile(store.record_places())]
            await system.close(1.0)
        except (KodeError, OSError, ValueError) as error:
            told.append(repr(error))
        return [f"reading memory: {text}" for text in told]


def _missing_agents(place: Place, shown: Shown) -> list[str]:
    """Subagents whose end was announced, and whose result is neither on disk nor in the session. A
    full disk loses the file, and says so where it ends the turn."""
    session_id = session_of(shown)
    ended = Counter(e["status"] for e in shown if e["type"] == "agent_finished")
    refused = any(e["type"] == "result" and e["status"] == "error" for e in shown)
    if not ended or session_id is None or refused:
        return []
    path = log.session_path(place.home, session_id)
    said = path.read_text()
    agents = agents_of(place, session_id)
    kept = Counter(
        status
        for agent in agents
        for status in ("success", "interrupted", "error", "timeout")
        if (agent.result and agent.result.status == status) or f"{agent.id}: {status}" in said
    )
    return [f"results of subagents: {ended} announced, {kept} kept"] if ended - kept else []


def sums_up(narrative: str, *facts: str) -> dict[str, Any]:
    """The answer to the question about an ended session."""
    answer = {"narrative": narrative, "facts": [{"fact": fact} for fact in facts]}
    return {"match": "The transcript of the session", "text": json.dumps(answer)}


EPISODE = sums_up("Wrote a file about ships.")
COMPACTION = {"match": "^This conversation is about to be shortened", "text": "A summary."}
FULL = {"error": {"status": "overflow", "text": "too long"}}
HERE = {"text": "Still here."}
SHORT, LONG = "Likes short answers", "Likes long answers"
SHIPS = ("", "one\n", "two\n")


def _does(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"calls": list(calls), **more}


def _remember(action: str, **arguments: str) -> dict[str, Any]:
    return call("memory", action=action, target="user", **arguments)


def _states(*states: set[str]) -> list[Facts]:
    return [frozenset(state) for state in states]


WRITES_SHIPS = call("write_file", path="ships.txt", content="one\n")
EDITS_SHIPS = call("edit_file", path="ships.txt", old_text="one", new_text="two")
READS_SHIPS = call("read_file", path="ships.txt")

TIERED = Life(
    name="tiered",
    memory={"min_turns_for_extraction": 1},
    commands=(
        (
            "run",
            "Write about ships.",
            [
                EPISODE,
                _does(WRITES_SHIPS, _remember("add", content=SHORT), text="I write it."),
                _does(READS_SHIPS),
                _does(EDITS_SHIPS),
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [
                COMPACTION,
                sums_up("Changed a file about ships."),
                _does(call("shell", command="true")),
                FULL,
                _does(call("write_file", path="deep/er/more.txt", content="three\n")),
                _does(_remember("replace", old_text=SHORT, content=LONG)),
                {"text": "Changed."},
            ],
        ),
        ("session", "trim", "newest", "4"),
        ("session", "cleanup", "30"),
    ),
    after=[sums_up("It was about ships again."), HERE],
    facts=_states(set(), {SHORT}, {LONG}),
    tools=("memory",),
    versions={"ships.txt": SHIPS, "deep/er/more.txt": ("", "three\n")},
)

MONTH = "episodes/2020-01.md"
"""Asked for; kept under the present month."""


def _reflecting(title: str) -> dict[str, Any]:
    entry = f"## {title}\n- Summary: looked back"
    calls = [call("memory_append", path=MONTH, entry=entry)]
    return {"match": "The transcript of the session", "calls": calls, "then": [{"text": "{}"}]}


VAULT = Life(
    name="vault",
    memory={"system": "vault"},
    commands=(
        (
            "run",
            "Write about ships.",
            [
                _reflecting("First"),
                _does(
                    call("memory_write", path="facts/user.md", content="- Answers: short\n"),
                    WRITES_SHIPS,
                ),
                _does(call("memory_append", path=MONTH, entry="## Ships\n- Summary: a file")),
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [
                COMPACTION,
                _reflecting("Second"),
                FULL,
                _does(
                    call(
                        "memory_patch",
                        path="facts/user.md",
                        patches=[{"oldText": "short", "newText": "long"}],
                    )
                ),
                {"text": "Changed."},
            ],
        ),
        ("memory", "undo"),
    ),
    after=[_reflecting("Later"), HERE],
    facts=_states(set(), {"Answers: short"}, {"Answers: long"}),
    tools=("memory_write", "memory_patch"),
    versions={"ships.txt": SHIPS},
)

JOURNAL = Life(
    name="journal",
    memory={"system": "journal", "journal": {"memory_window": 2}},
    commands=(
        (
            "run",
            "Write about ships.",
            [
                sums_up("Wrote about ships.", SHORT),
                _does(WRITES_SHIPS),
                _does(EDITS_SHIPS),
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [
                COMPACTION,
                sums_up("Went on.", LONG),
                _does(call("shell", command="true")),
                _does(READS_SHIPS, text="Some."),
                _does(READS_SHIPS, text="More."),
                {"text": "Changed."},
            ],
        ),
        ("memory", "undo"),
    ),
    after=[COMPACTION, sums_up("Came back."), HERE],
    facts=_states(set(), {SHORT}, {SHORT, LONG}),
    versions={"ships.txt": SHIPS},
)

BOATS, PLANES, OLD_BOATS, LIKED = "Builds boats", "Builds planes", "Builds old boats", "Likes ships"
SOUL = "You are brief."
REPLACED, FORGOTTEN = (
    Statement(
        place="notes/log", text=text, kind="log", claimed_at="2026-01-01T00:00:00Z", who="model"
    )
    for text in (BOATS, PLANES)
)

NOTES = Life(
    name="notes",
    memory={"system": "notes", "min_turns_for_extraction": 1},
    stored=(REPLACED, FORGOTTEN),
    commands=(
        (
            "run",
            "Write about ships.",
            [
                EPISODE,
                _does(call("remember", content=LIKED)),
                _does(call("update_memory", id=REPLACED.id, content=OLD_BOATS), WRITES_SHIPS),
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [
                COMPACTION,
                sums_up("Went on about ships."),
                FULL,
                _does(call("update_soul", content=SOUL)),
                _does(call("forget", id=FORGOTTEN.id)),
                {"text": "Changed."},
            ],
        ),
        ("memory", "undo"),
    ),
    after=[sums_up("It was about ships again."), HERE],
    facts=_states(
        {BOATS, PLANES},
        {BOATS, PLANES, LIKED},
        {OLD_BOATS, PLANES, LIKED},
        {OLD_BOATS, PLANES, LIKED, SOUL},
        {OLD_BOATS, LIKED, SOUL},
    ),
    tools=("remember", "update_memory", "update_soul", "forget"),
    versions={"ships.txt": SHIPS},
)

WRITES = {
    "match": "(?m)^# Goal\nWrite",
    "calls": [call("write_file", path="boats.txt", content="boats\n")],
    "then": [
        _does(call("shell", command="sleep 0.3; echo late > late.txt")),
        {"text": "The boats are written."},
    ],
}
LOOKS = {
    "match": "(?m)^# Goal\nLook",
    "calls": [call("list_files", pattern="*")],
    "then": [{"text": "There is little.", "delay_s": 0.2}],
}
DELEGATES = call("delegate_tasks", tasks=[{"goal": "Write of boats."}, {"goal": "Look around."}])


@dataclass(frozen=True, kw_only=True)
class SubagentsLife(Life):
    def missing(self, place: Place, shown: Shown) -> list[str]:
        faults = super().missing(place, shown)
        boats = place.project / "boats.txt"
        text = boats.read_text() if boats.exists() else ""
        session_id = session_of(shown)
        results = [r.result for r in agents_of(place, session_id) if r.result] if session_id else []
        written = any("boats.txt" in result.files_changed for result in results)
        if text not in ("", "boats\n") or (written and not text):
            faults.append(f"boats.txt holds {text!r}")
        return faults


SUBAGENTS = SubagentsLife(
    name="subagents",
    memory={"min_turns_for_extraction": 1},
    commands=(
        (
            "run",
            "Write about ships.",
            [
                EPISODE,
                WRITES,
                LOOKS,
                _does(_remember("add", content=SHORT)),
                _does(DELEGATES),
                _does(WRITES_SHIPS),
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [COMPACTION, sums_up("Went on about ships."), FULL, {"text": "Changed."}],
        ),
        ("session", "trim", "newest", "2"),
    ),
    after=[sums_up("It was about ships again."), HERE],
    facts=_states(set(), {SHORT}),
    tools=("memory",),
    versions={"ships.txt": SHIPS},
)

LIVES = (TIERED, VAULT, JOURNAL, NOTES, SUBAGENTS)
