"""A scripted life of a session, run by the real interpreter, and what must be true after a fault.

The commands are those a person types: two turns with tools, memory, a compaction and an episode,
then `session trim` and `session cleanup`. A script plays the model; everything else is real.
"""

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kode import durable
from kode.errors import SessionError
from kode.memory.history import History
from kode.memory.tiered.facts import parse
from kode.messages import ToolCall, calls_of, results_of, text_of
from kode.session import log, upkeep
from kode.session.entries import MessageEntry, TrimEntry, TurnEntry
from kode.session.told import told

ROOT = Path(__file__).parents[2]
SESSION = "20200101-000000-aaaaaa"
"""An old one, which the clean-up removes."""

CONFIG = {"memory": {"min_turns_for_extraction": 1}}
EPISODE = {
    "match": "ranscript",
    "text": '{"narrative": "Wrote a file about ships.", "facts": []}',
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


FIRST = [
    EPISODE,
    {
        "text": "I write it.",
        "calls": [
            call("write_file", path="ships.txt", content="one\n"),
            call("memory", action="add", target="user", content="Likes short answers"),
        ],
    },
    {"calls": [call("read_file", path="ships.txt")]},
    {"calls": [call("edit_file", path="ships.txt", old_text="one", new_text="two")]},
    {"text": "Written."},
]
SECOND = [
    {"match": r"^<transcript>\s*\[", "text": "A summary."},  # the compaction's request
    EPISODE,
    {"calls": [call("shell", command="true")]},
    {"error": {"status": "overflow", "text": "too long"}},
    {"calls": [call("write_file", path="deep/er/more.txt", content="three\n")]},
    {
        "calls": [
            call(
                "memory",
                action="replace",
                target="user",
                old_text="Likes short answers",
                content="Likes long answers",
            )
        ]
    },
    {"text": "Changed."},
]
AFTER = [EPISODE, {"text": "Still here."}]

FACTS = ((), ("Likes short answers",), ("Likes long answers",))
"""What the fact file holds, one after the other: each call of the memory tool leads to the next."""


@dataclass
class Place:
    """A home and a project of their own."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def prepare(self) -> None:
        self.project.mkdir(parents=True)
        self.home.mkdir(mode=0o700)
        (self.home / "config.json").write_text(json.dumps(CONFIG))
        self._old_session()

    def copy_to(self, folder: Path) -> "Place":
        shutil.copytree(self.folder, folder, symlinks=True)
        return Place(folder, self.environ)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "KODE_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environ,
        }

    def run(
        self, argv: Sequence[str], timeout_s: float = 60.0
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            list(argv),
            env=self.environment(),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )

    def _old_session(self) -> None:
        folder = self.home / "sessions"
        folder.mkdir(mode=0o700)
        at = "2020-01-01T00:00:00.000Z"
        header = {"type": "session", "id": SESSION, "version": 1, "created_at": at}
        header |= {"cwd": "/nowhere", "model": "m", "provider": "scripted"}
        said = {"type": "message", "role": "user", "parts": [{"text": "old", "type": "text"}]}
        lines = [json.dumps(line) for line in (header, {**said, "id": "00000001", "at": at})]
        (folder / f"{SESSION}.jsonl").write_text("\n".join(lines) + "\n")
        outputs = folder / SESSION / "outputs"
        outputs.mkdir(parents=True)
        (outputs / "1.txt").write_text("old output")


def kode(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kode", *arguments]


def task(place: Place, script: Sequence[Any], *arguments: str) -> list[str]:
    """A command that runs one task, the events on standard output."""
    text = json.dumps(script)
    path = place.folder / f"script-{zlib.crc32(text.encode())}.json"
    path.write_text(text)
    flags = ["--provider", "scripted", "--script", str(path), "--permission-mode", "full"]
    return kode(*arguments[:-1], *flags, "--output-format", "stream-json", arguments[-1])


def commands(place: Place) -> list[list[str]]:
    """The life of a session, in order; `newest` stands for its id."""
    return [
        task(place, FIRST, "run", "Write about ships."),
        task(place, SECOND, "continue", "Go on."),
        kode("session", "trim", "newest", "4"),
        kode("session", "cleanup", "30"),
    ]


def events(out: bytes) -> list[dict[str, Any]]:
    """The events that were shown whole."""
    return [json.loads(line) for line in out.split(b"\n")[:-1] if line.startswith(b"{")]


def session_of(shown: Iterable[dict[str, Any]]) -> str | None:
    return next((e["session_id"] for e in shown if e["type"] == "session_started"), None)


def missing(place: Place, shown: Sequence[dict[str, Any]]) -> list[str]:
    """What was acknowledged and is not there. `shown`: every event of the commands so far.

    Acknowledged is a reply that was shown; the result of a call, and its change to a file or to
    memory, once the call was shown as done; a turn, once its result was.
    """
    faults = missing_of_session(place, shown)
    faults += _missing_facts(place, shown)
    faults += _missing_episode(place, shown)
    faults += missing_changes(place, shown)
    written = _file_versions(shown)
    for name, versions in written.items():
        path = place.project / name
        text = path.read_text() if path.exists() else ""
        if text not in versions:
            faults.append(f"{name} holds {text!r}, not one of {versions}")
    return faults


def missing_of_session(place: Place, shown: Sequence[dict[str, Any]]) -> list[str]:
    session_id = session_of(shown)
    turns = [event for event in shown if _is_kept_result(event, shown)]
    replies = [event["message"] for event in shown if event["type"] == "replied"]
    done = [event["call_id"] for event in shown if event["type"] == "tool_finished"]
    if not replies or session_id is None:
        return []
    try:
        _, entries, _ = log.read(log.session_path(place.home, session_id))
    except SessionError as error:
        return [f"the session: {error}"]
    messages = [entry for entry in entries if isinstance(entry, MessageEntry)]
    held = [
        (text_of(message), [call.id for call in calls_of(message)])
        for message in messages
        if message.role == "assistant"
    ]
    results = {
        result.call_id
        for message in messages
        for result in results_of(message)
        if "unknown" not in result.text
    }
    faults = []
    for number, reply in enumerate(replies):
        text = "".join(part["text"] for part in reply["parts"] if part["type"] == "text")
        calls = [part["id"] for part in reply["parts"] if part["type"] == "tool_call"]
        if (text, calls) not in held:
            faults.append(f"reply {number}: {text!r} {calls}")
    faults += [f"the result of call {call_id}" for call_id in done if call_id not in results]
    if len(turns) > sum(isinstance(entry, TurnEntry) for entry in entries):
        faults.append("the end of a turn")
    return faults


def _missing_facts(place: Place, shown: Sequence[dict[str, Any]]) -> list[str]:
    path = place.home / "memory/facts/user.md"
    facts = parse(path.read_text()) if path.exists() else ()
    least = 0
    for event in shown:
        least += _is_done(event, "memory")
    if tuple(facts) not in FACTS[least:]:
        return [f"facts are {facts}, and should be one of {FACTS[least:]}"]
    return []


def missing_changes(place: Place, shown: Sequence[dict[str, Any]]) -> list[str]:
    """Changes to memory that were shown and whose undo is not in the history."""
    history = History(place.home / "memory/history.jsonl")
    ids = [event["change_id"] for event in shown if event["type"] == "memory_changed"]
    return [f"the change {id}" for id in ids if id and not history.find(id)]


def _is_done(event: dict[str, Any], tool: str) -> bool:
    return event["type"] == "tool_finished" and event["name"] == tool and not event["is_error"]


def _is_kept_result(event: dict[str, Any], shown: Sequence[dict[str, Any]]) -> bool:
    """A success, unless it was told that its record could not be written."""
    told = any(e["type"] == "notice" and e["level"] == "error" for e in shown)
    return event["type"] == "result" and event["status"] == "success" and not told


def _missing_episode(place: Place, shown: Sequence[dict[str, Any]]) -> list[str]:
    told = any(
        event["type"] == "memory_changed" and event["text"].startswith("kept episode")
        for event in shown
    )
    there = (place.home / f"memory/episodes/{session_of(shown)}.md").exists()
    return ["the episode"] if told and not there else []


def _file_versions(shown: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    versions = {"ships.txt": ["", "one\n", "two\n"], "deep/er/more.txt": ["", "three\n"]}
    for event in shown:
        if _is_done(event, "write_file") or _is_done(event, "edit_file"):
            versions[event["subject"]] = versions[event["subject"]][1:]
    return versions


def unfit(place: Place, session_id: str | None) -> list[str]:
    """What a start after a fault left wrong: sessions that check finds fault with, calls without
    a result, temporary files."""
    faults = [
        f"check of {checked.id}: {fault}"
        for checked in upkeep.check(place.home)
        for fault in checked.faults
        if session_id is None or checked.id == session_id
    ]
    if session_id is not None and (place.home / f"sessions/{session_id}.jsonl").exists():
        _, entries, _ = log.read(log.session_path(place.home, session_id))
        faults += _unanswered(told(entries))
    litter = [
        path
        for folder in (place.home, place.project)
        for path in folder.rglob(f"{durable.TEMPORARY_PREFIX}*")
    ]
    return faults + [f"left behind: {path.relative_to(place.folder)}" for path in litter]


def _unanswered(messages: Sequence[Any]) -> list[str]:
    answered = {result.call_id for message in messages for result in results_of(message)}
    asked: list[ToolCall] = [call for message in messages for call in calls_of(message)]
    return [f"no result for {call.name}" for call in asked if call.id not in answered]


def newest(place: Place) -> str | None:
    """The id of the session that the commands made; None when there is none yet."""
    ids = sorted(path.stem for path in (place.home / "sessions").glob("2*.jsonl"))
    return ids[-1] if ids and ids[-1] != SESSION else None


def is_trimmed(place: Place, session_id: str) -> bool:
    _, entries, _ = log.read(log.session_path(place.home, session_id))
    return any(isinstance(entry, TrimEntry) for entry in entries)


def spread(points: Sequence[Any], count: int) -> list[Any]:
    """So many of them, from the first to the last."""
    if len(points) <= count:
        return list(points)
    return [points[round(i * (len(points) - 1) / (count - 1))] for i in range(count)]
