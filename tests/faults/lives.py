"""The lives of sessions that the fault tests cut short: what is run, and what must be true of the
memory and the files it leaves, at any moment.

    tiered     turns, tools, facts, a compaction, an episode, a trim, a clean-up
    vault      files written and patched, entries appended, the reflector, an undo
    journal    consolidations at a full window and at the end, an undo
    notes      notes remembered, replaced, forgotten, the soul, summaries, an undo
    subagents  two children that write while their parent waits

The commands are those a person types. A script plays the model; everything else is real.
"""

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kode.memory.history import History
from kode.memory.journal.files import HISTORY, parse
from kode.memory.tiered.facts import parse as parse_facts

from kode import paths
from kode.config import MemoryConfig
from kode.contracts import MemoryContext
from kode.errors import KodeError
from kode.memory import make_system
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


@dataclass(frozen=True, kw_only=True)
class Life:
    """One session's life. `lost` says what of memory was acknowledged and is not there, or is
    neither what it was nor what it became."""

    name: str
    memory: Mapping[str, Any]
    """The section of the settings."""
    commands: tuple[Sequence[Any], ...]
    """(words..., script) of each `kode run` or `continue`, or the words of another command."""
    after: Sequence[Any]
    """The script of the next start."""
    lost: Callable[[Place, Shown], list[str]]
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """File of the project → what it holds, one after the other."""
    imported: Sequence[Mapping[str, Any]] = ()
    """What memory holds before."""

    @property
    def names(self) -> list[str]:
        return [" ".join(w for w in words if isinstance(w, str)) for words in self.commands]

    def prepare(self, place: Place) -> None:
        place.prepare({"memory": dict(self.memory)})
        if self.imported:
            rows = place.folder / "rows.jsonl"
            rows.write_text("".join(json.dumps(row) + "\n" for row in self.imported))
            done = place.run(kode("memory", "import", str(rows)))
            assert done.returncode == 0, done.stderr

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
        return faults + self.lost(place, shown)

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
        return asyncio.run(self._read(place))

    def unfit(self, place: Place) -> list[str]:
        """What a start has left undone in this life's own parts."""
        session_id = newest(place)
        found = unfit_agents(place, session_id) if session_id else []
        return found + self.unreadable(place)

    async def _read(self, place: Place) -> list[str]:
        told: list[str] = []
        system = make_system(MemoryConfig.model_validate(self.memory))
        context = MemoryContext(
            root=paths.memory_folder(place.home, None),
            cwd=place.project,
            project_root=None,
            session_id=None,
            emit=lambda event: told.append(str(event)),
            ask_reply=None,
            now=lambda: datetime.now().astimezone(),
            read_only=True,
        )
        try:
            await system.open(context, {})
            await system.inject("start")
            await system.snapshot()
            await system.search("ships", 5)
            await system.close(1.0)
        except (KodeError, OSError, ValueError) as error:
            told.append(repr(error))
        return [f"reading memory: {text}" for text in told]


def step_between(found: Any, states: Sequence[Any], shown: Shown, *tools: str) -> list[str]:
    """Whether memory is as it was before the call that was being made, or as it is after it: each
    call of `tools` that was done leads to the next state."""
    done = count_done(shown, *tools)
    begun = sum(e["type"] == "tool_started" and e["name"] in tools for e in shown)
    allowed = states[done : begun + 1]
    return [] if found in allowed else [f"memory is {found!r}, and should be one of {allowed!r}"]


def _is_undoing(shown: Shown) -> bool:
    """Whether the last change may have been taken back."""
    return any(event["type"] == "command" and "undo" in event["words"] for event in shown)


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


# ── tiered ───────────────────────────────────────────────────────────────────────────────────

EPISODE = {
    "match": "ranscript",
    "text": '{"narrative": "Wrote a file about ships.", "facts": []}',
}
COMPACTION = {"match": "^This conversation is about to be shortened", "text": "A summary."}
FULL = {"error": {"status": "overflow", "text": "too long"}}
HERE = {"text": "Still here."}


def _remember(action: str, **arguments: str) -> dict[str, Any]:
    return call("memory", action=action, target="user", **arguments)


FIRST = [
    EPISODE,
    {
        "text": "I write it.",
        "calls": [
            call("write_file", path="ships.txt", content="one\n"),
            _remember("add", content="Likes short answers"),
        ],
    },
    {"calls": [call("read_file", path="ships.txt")]},
    {"calls": [call("edit_file", path="ships.txt", old_text="one", new_text="two")]},
    {"text": "Written."},
]
SECOND = [
    COMPACTION,
    EPISODE,
    {"calls": [call("shell", command="true")]},
    FULL,
    {"calls": [call("write_file", path="deep/er/more.txt", content="three\n")]},
    {
        "calls": [
            _remember("replace", old_text="Likes short answers", content="Likes long answers"),
        ]
    },
    {"text": "Changed."},
]
SHIPS = ("", "one\n", "two\n")


def _lost_of_tiered(place: Place, shown: Shown) -> list[str]:
    path = place.home / "memory/facts/user.md"
    facts = parse_facts(path.read_text()) if path.exists() else ()
    states = ((), ("Likes short answers",), ("Likes long answers",))
    faults = step_between(tuple(facts), states, shown, "memory")
    episode = place.home / f"memory/episodes/{session_of(shown)}.md"
    if told_changes(shown, "kept episode") and not episode.exists():
        faults.append("the episode")
    return faults


TIERED = Life(
    name="tiered",
    memory={"min_turns_for_extraction": 1},
    commands=(
        ("run", "Write about ships.", FIRST),
        ("continue", "Go on.", SECOND),
        ("session", "trim", "newest", "4"),
        ("session", "cleanup", "30"),
    ),
    after=[EPISODE, HERE],
    lost=_lost_of_tiered,
    versions={"ships.txt": SHIPS, "deep/er/more.txt": ("", "three\n")},
)

# ── vault ────────────────────────────────────────────────────────────────────────────────────

MONTH = "episodes/2020-01.md"
"""Asked for; kept under the present month."""


def _reflecting(title: str) -> dict[str, Any]:
    entry = f"## {title}\n- Summary: looked back"
    nothing = {"text": "nothing"}
    calls = [call("memory_append", path=MONTH, entry=entry)]
    return {"match": "The transcript of the task", "calls": calls, "then": [nothing]}


def _lost_of_vault(place: Place, shown: Shown) -> list[str]:
    facts = place.home / "memory/vault/facts/user.md"
    root = paths.project_memory(place.home / "memory/vault", place.project)
    states = (None, "short", "long")
    text = facts.read_text() if facts.exists() else None
    found = text and next((word for word in states if word and f"Answers: {word}" in text), text)
    faults = step_between(found, states, shown, "memory_write", "memory_patch")
    held = "".join(path.read_text() for path in sorted(root.glob("episodes/*.md")))
    titles = Counter(line for line in held.split("\n") if line.startswith("## "))
    faults += [f"{title} stands there {n} times" for title, n in titles.items() if n > 1]
    undoing = _is_undoing(shown)
    kept = [t for t in ("Ships", "First", "Second") if told_changes(shown, f'"{t}')]
    lost = [title for title in kept if not titles[f"## {title}"]]
    if len(lost) > undoing or (len(lost) == 0 and has_printed(shown, "undid append")):
        faults.append(f"entries {lost} are missing")
    broken = any(event["type"] == "notice" for event in shown)
    ended = (
        0 if broken else sum(e.get("status") == "success" for e in shown if e["type"] == "result")
    )
    for turn, title in list(enumerate(("First", "Second"), 1))[:ended]:
        waits = (root / f"pending/{session_of(shown)}.{turn:04d}.json").exists()
        looked_back = titles[f"## {title}"] or titles["## Later"]
        if not waits and not looked_back and not undoing:
            faults.append(f"the task of turn {turn} is neither waiting nor looked back on")
    return faults


VAULT = Life(
    name="vault",
    memory={"system": "vault"},
    commands=(
        (
            "run",
            "Write about ships.",
            [
                _reflecting("First"),
                {
                    "calls": [
                        call("memory_write", path="facts/user.md", content="- Answers: short\n"),
                        call("write_file", path="ships.txt", content="one\n"),
                    ]
                },
                {
                    "calls": [
                        call("memory_append", path=MONTH, entry="## Ships\n- Summary: a file"),
                    ]
                },
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
                {
                    "calls": [
                        call(
                            "memory_patch",
                            path="facts/user.md",
                            patches=[{"oldText": "short", "newText": "long"}],
                        )
                    ]
                },
                {"text": "Changed."},
            ],
        ),
        ("memory", "undo"),
    ),
    after=[_reflecting("Later"), HERE],
    lost=_lost_of_vault,
    versions={"ships.txt": SHIPS},
)

# ── journal ──────────────────────────────────────────────────────────────────────────────────

SHORT, LONG = "- Likes short answers", "- Likes short answers\n- Likes long answers"


def _consolidated(note: str, *facts: str) -> dict[str, Any]:
    answer = json.dumps({"narrative": note, "facts": list(facts)})
    return {"match": "The transcript of a session", "text": answer}


def _lost_of_journal(place: Place, shown: Shown) -> list[str]:
    root = paths.project_memory(place.home / "memory/journal", place.project)
    history = History(place.home / "memory/history.jsonl")
    memory = root / "MEMORY.md"
    text = memory.read_text().strip() if memory.exists() else ""
    faults = [] if text in ("", SHORT, LONG) else [f"MEMORY.md is {text!r}"]
    undoing = _is_undoing(shown)
    told = [
        found[0] for e in told_changes(shown, "added to MEMORY") if (found := _change(history, e))
    ]
    if told and text not in (told[-1].after[0], LONG) and not undoing:
        faults.append(f"MEMORY.md is {text!r}, after {told[-1].after[0]!r} was told")
    for path in root.glob("HISTORY*.md"):
        entries = Counter((entry.at, entry.text) for entry in parse(path.read_text()))
        faults += [f"{path.name} holds {e} {n} times" for e, n in entries.items() if n > 1]
    whole = (root / HISTORY).read_text() if (root / HISTORY).exists() else ""
    months = "".join(path.read_text() for path in root.glob("HISTORY-*.md"))
    for event in told_changes(shown, "added to the history"):
        block = next(iter(_change(history, event)[0].after), "") if _change(history, event) else ""
        if not undoing and not (block in whole and block in months):
            faults.append(f"the entry {block!r}")
    return faults


def _change(history: History, event: Event) -> list[Any]:
    return history.find(event["change_id"])


JOURNAL = Life(
    name="journal",
    memory={"system": "journal", "journal": {"memory_window": 2}},
    commands=(
        (
            "run",
            "Write about ships.",
            [
                _consolidated("Wrote about ships.", "Likes short answers"),
                {"calls": [call("write_file", path="ships.txt", content="one\n")]},
                {"calls": [call("edit_file", path="ships.txt", old_text="one", new_text="two")]},
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [
                COMPACTION,
                _consolidated("Went on.", "Likes long answers"),
                {"calls": [call("shell", command="true")]},
                {"text": "Some.", "calls": [call("read_file", path="ships.txt")]},
                {"text": "More.", "calls": [call("read_file", path="ships.txt")]},
                {"text": "Changed."},
            ],
        ),
        ("memory", "undo"),
    ),
    after=[COMPACTION, _consolidated("Came back."), HERE],
    lost=_lost_of_journal,
    versions={"ships.txt": SHIPS},
)

# ── notes ────────────────────────────────────────────────────────────────────────────────────

BOATS, PLANES, OLD_BOATS = "Builds boats", "Builds planes", "Builds old boats"
REPLACED, FORGOTTEN = "00000000000aaaa1", "00000000000aaaa2"
SOUL = "You are brief."
ABOUT_SESSION = "It was about ships."
NARRATIVE = {
    "match": "The transcript of",
    "text": json.dumps({"narrative": ABOUT_SESSION, "facts": []}),
}
MORE = {**NARRATIVE, "text": json.dumps({"narrative": f"{ABOUT_SESSION} Again.", "facts": []})}


@contextmanager
def _notes(place: Place) -> Iterator[Any]:
    """A connection to a copy of the notes, as the next process would find them."""
    import apsw

    source = place.home / "memory/notes"
    with tempfile.TemporaryDirectory() as folder:
        if source.is_dir():
            shutil.copytree(source, folder, dirs_exist_ok=True)
        connection = apsw.Connection(str(Path(folder) / "notes.db"))
        try:
            yield connection
        finally:
            connection.close()


def _held_by_notes(place: Place) -> tuple[set[str], list[str], set[str]]:
    """Active notes: logs, souls, summaries. Raises: apsw.Error when not all of it is whole."""
    import apsw

    active = "SELECT content FROM memory_notes WHERE superseded_by IS NULL AND kind"
    with _notes(place) as connection:
        whole = connection.execute("PRAGMA integrity_check").fetchall()
        if whole != [("ok",)]:
            raise apsw.CorruptError(str(whole))
        logs, souls, told = (
            [text for (text,) in connection.execute(f"{active} = '{kind}'")]
            for kind in ("log", "soul", "summary")
        )
        connection.execute("INSERT INTO note_words (note_words) VALUES ('integrity-check')")
    return set(logs), souls, set(told)


def _lost_of_notes(place: Place, shown: Shown) -> list[str]:
    import apsw

    path = place.home / "memory/notes/notes.db"
    if not path.exists():
        return ["notes.db"]
    try:
        logs, souls, told = _held_by_notes(place)
    except apsw.Error as error:
        return [f"notes.db: {error!r}"]
    if len(souls) != 1 or {BOATS, OLD_BOATS} <= logs or not {BOATS, OLD_BOATS} & logs:
        return [f"the souls are {souls}, the logs {logs}"]
    changed = {
        "remember": "Likes ships" in logs,
        "update_memory": OLD_BOATS in logs,
        "update_soul": souls[0] == SOUL,
        "forget": PLANES not in logs,
    }
    faults = []
    if _is_undoing(shown):  # the last change: a summary that says the same is not written again
        del changed["forget"]
    for tool, is_changed in changed.items():
        found = step_between(is_changed, (False, True), shown, tool)
        faults += [f"{tool}: {fault}" for fault in found]
    summed_up = any(ABOUT_SESSION in one for one in told)
    if told_changes(shown, ABOUT_SESSION) and not summed_up and not _is_undoing(shown):
        faults.append("the summary of the session")
    return faults


NOTES = Life(
    name="notes",
    memory={"system": "notes", "min_turns_for_extraction": 1},
    imported=(
        {"system": "notes", "id": REPLACED, "content": BOATS},
        {"system": "notes", "id": FORGOTTEN, "content": PLANES},
    ),
    commands=(
        (
            "run",
            "Write about ships.",
            [
                NARRATIVE,
                {"calls": [call("remember", content="Likes ships")]},
                {
                    "calls": [
                        call("update_memory", id=REPLACED, content=OLD_BOATS),
                        call("write_file", path="ships.txt", content="one\n"),
                    ]
                },
                {"text": "Written."},
            ],
        ),
        (
            "continue",
            "Go on.",
            [
                COMPACTION,
                NARRATIVE,
                FULL,
                {"calls": [call("update_soul", content=SOUL)]},
                {"calls": [call("forget", id=FORGOTTEN)]},
                {"text": "Changed."},
            ],
        ),
        ("memory", "undo"),
    ),
    after=[MORE, HERE],
    lost=_lost_of_notes,
    versions={"ships.txt": SHIPS},
)

# ── subagents ────────────────────────────────────────────────────────────────────────────────

WRITES = {
    "match": "(?m)^# Goal\nWrite",
    "calls": [call("write_file", path="boats.txt", content="boats\n")],
    "then": [
        {"calls": [call("shell", command="sleep 0.3; echo late > late.txt")]},
        {"text": "The boats are written."},
    ],
}
LOOKS = {
    "match": "(?m)^# Goal\nLook",
    "calls": [call("list_files", pattern="*")],
    "then": [{"text": "There is little.", "delay_s": 0.2}],
}


def _lost_of_subagents(place: Place, shown: Shown) -> list[str]:
    faults = _lost_of_tiered(place, shown)
    boats = place.project / "boats.txt"
    text = boats.read_text() if boats.exists() else ""
    session_id = session_of(shown)
    results = [r.result for r in agents_of(place, session_id) if r.result] if session_id else []
    written = any("boats.txt" in result.files_changed for result in results)
    if text not in ("", "boats\n") or (written and not text):
        faults.append(f"boats.txt holds {text!r}")
    return faults


SUBAGENTS = Life(
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
                {"calls": [_remember("add", content="Likes short answers")]},
                {
                    "calls": [
                        call(
                            "delegate_tasks",
                            tasks=[{"goal": "Write of boats."}, {"goal": "Look around."}],
                        )
                    ]
                },
                {"calls": [call("write_file", path="ships.txt", content="one\n")]},
                {"text": "Written."},
            ],
        ),
        ("continue", "Go on.", [COMPACTION, EPISODE, FULL, {"text": "Changed."}]),
        ("session", "trim", "newest", "2"),
    ),
    after=[EPISODE, HERE],
    lost=_lost_of_subagents,
    versions={"ships.txt": SHIPS},
)

LIVES = (TIERED, VAULT, JOURNAL, NOTES, SUBAGENTS)
