"""kode as a person runs it, by the real interpreter, in a home and a project of its own; and what
must be true of any session after a fault.

Which commands are run, and what must be true of their memory and files, is in `lives.py`.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kode import durable
from kode.errors import SessionError
from kode.memory.files import PREPARED
from kode.memory.fold import View, fold
from kode.memory.log import Log
from kode.messages import Text, ToolCall, ToolResult, calls_of, results_of, text_of
from kode.session import log, upkeep
from kode.session.entries import MessageEntry, TurnEntry
from kode.session.log import Session
from kode.subagents.records import Record, read_records
from kode.tools import processes

ROOT = Path(__file__).parents[2]
OLD_SESSION = "20200101-000000-aaaaaa"
"""Which the clean-up removes."""

ORPHAN_S = 15.0
"""A subagent whose parent was killed is gone after this."""

Event = Mapping[str, Any]


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

    def prepare(self, settings: Mapping[str, Any]) -> None:
        self.project.mkdir(parents=True)
        self.home.mkdir(mode=0o700)
        (self.home / "config.json").write_text(json.dumps(settings))
        self._old_session()

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
        header = {"type": "session", "id": OLD_SESSION, "version": 1, "created_at": at}
        header |= {"cwd": "/nowhere", "model": "m", "provider": "scripted"}
        said = {"type": "message", "role": "user", "parts": [{"text": "old", "type": "text"}]}
        lines = [json.dumps(line) for line in (header, {**said, "id": "00000001", "at": at})]
        (folder / f"{OLD_SESSION}.jsonl").write_text("\n".join(lines) + "\n")
        outputs = folder / OLD_SESSION / "outputs"
        outputs.mkdir(parents=True)
        (outputs / "1.txt").write_text("old output")


def kode(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kode", *arguments]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call in a script."""
    return {"name": name, "arguments": arguments}


def task(place: Place, script: Sequence[Any], *arguments: str) -> list[str]:
    """A command that runs one task, the events on standard output."""
    text = json.dumps(script)
    path = place.folder / f"script-{zlib.crc32(text.encode())}.json"
    path.write_text(text)
    flags = ["--provider", "scripted", "--script", str(path), "--permission-mode", "full"]
    return kode(*arguments[:-1], *flags, "--output-format", "stream-json", arguments[-1])


def events(out: bytes) -> list[Event]:
    """The events that were shown whole; a line of a command that shows none is `printed`."""
    lines = [line for line in out.split(b"\n")[:-1] if line]
    return [
        json.loads(line)
        if line.startswith(b"{")
        else {"type": "printed", "text": line.decode(errors="replace")}
        for line in lines
    ]


def session_of(shown: Iterable[Event]) -> str | None:
    return next((e["session_id"] for e in shown if e["type"] == "session_started"), None)


def has_printed(shown: Iterable[Event], words: str) -> bool:
    return any(event["type"] == "printed" and words in event["text"] for event in shown)


# ── what was acknowledged ────────────────────────────────────────────────────────────────────


def missing_of_session(place: Place, shown: Sequence[Event]) -> list[str]:
    """What of a session was shown and is not in its file: replies; the results of calls that were
    shown as done; the end of a turn."""
    session_id = session_of(shown)
    turns = [event for event in shown if _is_kept_result(event, shown)]
    replies = [event["message"] for event in shown if event["type"] == "replied"]
    done = [
        event["call_id"]
        for event in shown
        if event["type"] == "tool_finished" and not event.get("stopped")
    ]
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


def memory_log(place: Place) -> Log:
    return Log(place.home / "memory/history.jsonl")


def memory_view(place: Place) -> View:
    """What memory holds, by its log."""
    return fold(memory_log(place).changes())


def missing_changes(place: Place, shown: Sequence[Event]) -> list[str]:
    """Changes to memory that were shown and that its log does not have."""
    history = memory_log(place)
    ids = [event["change_id"] for event in shown if event["type"] == "memory_changed"]
    return [f"the change {id}" for id in ids if id and not history.change(id)]


def missing_files(
    place: Place, shown: Sequence[Event], versions: Mapping[str, Sequence[str]]
) -> list[str]:
    """Files of the project that hold neither of the versions they may: each call that changed one
    leads from one version to the next."""
    least = dict.fromkeys(versions, 0)
    for event in shown:
        if is_done(event, "write_file", "edit_file"):
            least[event["subject"]] += 1
    faults = []
    for name, allowed in versions.items():
        path = place.project / name
        text = path.read_text() if path.exists() else ""
        if text not in allowed[least[name] :]:
            faults.append(f"{name} holds {text!r}, not one of {allowed[least[name] :]}")
    return faults


def is_done(event: Event, *tools: str) -> bool:
    return event["type"] == "tool_finished" and event["name"] in tools and not event["is_error"]


def count_done(shown: Iterable[Event], *tools: str) -> int:
    return sum(is_done(event, *tools) for event in shown)


def told_changes(shown: Iterable[Event], words: str) -> list[Event]:
    """The changes of memory that were told in such words."""
    changes = (event for event in shown if event["type"] == "memory_changed")
    return [event for event in changes if words in event["text"]]


def _is_kept_result(event: Event, shown: Sequence[Event]) -> bool:
    """A success, unless it was told that its record could not be written."""
    told = any(e["type"] == "notice" and e["level"] == "error" for e in shown)
    return event["type"] == "result" and event["status"] == "success" and not told


# ── what a start after a fault must leave in order ───────────────────────────────────────────


def unfit(place: Place, session_id: str | None) -> list[str]:
    """What a start after a fault left wrong: sessions that check finds fault with, calls without
    a result, records of subagents without an end, temporary files, a torn history."""
    faults = [
        f"check of {checked.id}: {fault}"
        for checked in upkeep.check(place.home)
        for fault in checked.faults
        if session_id is None or checked.id == session_id
    ]
    if session_id is not None and (place.home / f"sessions/{session_id}.jsonl").exists():
        header, entries, _ = log.read(log.session_path(place.home, session_id))
        session = Session(header=header, path=None)
        session.append(*entries)
        faults += _unanswered(session.messages)
    faults += damaged_history(place)
    litter = [
        path
        for folder in (place.home, place.project)
        for name in (f"{durable.TEMPORARY_PREFIX}*", PREPARED)
        for path in folder.rglob(name)
    ]
    return faults + [f"left behind: {path.relative_to(place.folder)}" for path in litter]


def damaged_history(place: Place) -> list[str]:
    """Whole lines of memory's log that cannot be read or stand in it twice."""
    history = memory_log(place)
    lines = history.path.read_bytes().count(b"\n") if history.path.exists() else 0
    damage = history.damage()
    faults = [f"history: {damage}"] if damage else []
    return faults + ["history has a change twice"] * (lines > len(history.changes()))


def _unanswered(messages: Sequence[Any]) -> list[str]:
    answered = {result.call_id for message in messages for result in results_of(message)}
    asked: list[ToolCall] = [call for message in messages for call in calls_of(message)]
    return [f"no result for {call.name}" for call in asked if call.id not in answered]


def agents_of(place: Place, session_id: str) -> list[Record]:
    return read_records(place.home / "sessions" / session_id / "agents")


def unfit_agents(place: Place, session_id: str) -> list[str]:
    """Subagents whose end nobody was told, and what should be gone with them."""
    _, entries, _ = log.read(log.session_path(place.home, session_id))
    said = "\n".join(
        part.text
        for entry in entries
        if isinstance(entry, MessageEntry)
        for part in entry.parts
        if isinstance(part, Text | ToolResult)
    )
    faults = []
    for folder in (place.home / "sessions" / session_id / "agents").glob("*"):
        if not (folder / "task.json").exists():
            faults.append(f"left behind: {folder.name}, of a subagent that never was")
        elif not (folder / "result.json").exists():
            faults.append(f"no result of {folder.name}")
        elif folder.name not in said:
            faults.append(f"the model was not told of {folder.name}")
    return faults


def outlive(place: Place) -> list[str]:
    """Waits for the subagents that a killed kode has left; those that live too long."""
    marks = []
    for path in (place.home / "sessions").glob("*/agents/*/agent.json"):
        with contextlib.suppress(ValueError):
            marks.append(json.loads(path.read_bytes())["mark"])
    deadline = time.monotonic() + ORPHAN_S
    living = marks
    while living := [mark for mark in living if processes.ProcessTree(mark).find()]:
        if time.monotonic() > deadline:
            return [f"{len(living)} subagents outlive their parent"]
        time.sleep(0.05)
    return []


def newest(place: Place) -> str | None:
    """The id of the session that the commands made; None when there is none yet."""
    ids = sorted(path.stem for path in (place.home / "sessions").glob("2*.jsonl"))
    return ids[-1] if ids and ids[-1] != OLD_SESSION else None


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
