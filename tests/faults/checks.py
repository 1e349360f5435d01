"""What must be true after a fault: all that was shown is there, and nothing is half done."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kode.errors import SessionError
from kode.memory.fold import MemoryView, fold
from kode.memory.log import Log
from kode.messages import Message, calls_of, results_of, text_of
from kode.session import log, upkeep
from kode.session.entries import MessageEntry, TurnEntry
from kode.session.log import Session
from kode.subagents.records import read_records
from tests.faults.place import Event, Place, Shown


def first(shown: Shown, type: str) -> Event | None:
    return next((event for event in shown if event["type"] == type), None)


def session_of(shown: Shown) -> str:
    """The session of the events; "" while none has begun."""
    started = first(shown, "session_started")
    return started["session_id"] if started else ""


def has_replied(shown: Shown) -> bool:
    return first(shown, "replied") is not None


def is_done(event: Event, *tools: str) -> bool:
    return event["type"] == "tool_finished" and event["name"] in tools and not event["is_error"]


def session_paths(place: Place) -> list[Path]:
    return sorted((place.home / "sessions").glob("2*.jsonl"))


def messages_in(path: Path) -> list[Message]:
    """What a model is told of a session, every call with its result."""
    header, entries, _ = log.read(path)
    session = Session(header=header, path=None)
    session.append(*entries)
    return session.messages


# ── what was shown ───────────────────────────────────────────────────────────────────────────


def missing_of_session(place: Place, shown: Shown) -> list[str]:
    """What of a session was shown and is not in its file: replies; the results of calls that were
    shown as done; the end of a turn."""
    replies = [event["message"] for event in shown if event["type"] == "replied"]
    if not replies:
        return []
    try:
        _, entries, _ = log.read(log.session_path(place.home, session_of(shown)))
    except SessionError as error:
        return [f"the session: {error}"]
    messages = [entry for entry in entries if isinstance(entry, MessageEntry)]
    written = [
        (text_of(message), [call.id for call in calls_of(message)])
        for message in messages
        if message.role == "assistant"
    ]
    faults = []
    for reply in replies:
        text = "".join(part["text"] for part in reply["parts"] if part["type"] == "text")
        calls = [part["id"] for part in reply["parts"] if part["type"] == "tool_call"]
        if (text, calls) not in written:
            faults.append(f"the reply {text!r} {calls}")
    results = {
        result.call_id
        for message in messages
        for result in results_of(message)
        if "unknown" not in result.text
    }
    ended = [e for e in shown if e["type"] == "tool_finished" and not e.get("stopped")]
    faults += [f"the result of {e['name']}" for e in ended if e["call_id"] not in results]
    # A turn that could not be recorded says so.
    is_told = any(e["type"] == "notice" and e["level"] == "error" for e in shown)
    turns = sum(e["type"] == "result" and e["status"] == "success" for e in shown)
    if not is_told and turns > sum(isinstance(entry, TurnEntry) for entry in entries):
        faults.append("the end of a turn")
    return faults


def missing_files(place: Place, shown: Shown, versions: Mapping[str, Sequence[str]]) -> list[str]:
    """Files of the project that hold none of the contents that they may: each call that changed
    one leads from one to the next, and "" stands for no file."""
    faults = []
    for name, contents in versions.items():
        done = sum(is_done(e, "write_file", "edit_file") and e["subject"] == name for e in shown)
        path = place.project / name
        text = path.read_text() if path.exists() else ""
        if text not in contents[done:]:
            faults.append(f"{name} holds {text!r}, not one of {contents[done:]}")
    return faults


def missing_agents(place: Place, shown: Shown) -> list[str]:
    """Subagents whose end was announced, and whose result is neither on disk nor in the session. A
    full disk loses the file, and says so where it ends the turn."""
    ended = Counter(e["status"] for e in shown if e["type"] == "agent_finished")
    if not ended or any(e["type"] == "result" and e["status"] == "error" for e in shown):
        return []
    path = log.session_path(place.home, session_of(shown))
    text = path.read_text()
    kept = Counter(
        status
        for agent in read_records(path.with_suffix("") / "agents")
        for status in ("success", "interrupted", "error", "timeout")
        if (agent.result and agent.result.status == status) or f"{agent.id}: {status}" in text
    )
    return [f"results of subagents: {ended} announced, {kept} kept"] if ended - kept else []


def memory_log(place: Place) -> Log:
    return Log(place.home / "memory/history.jsonl")


def memory_view(place: Place) -> MemoryView:
    """What memory holds, by its log."""
    return fold(memory_log(place).changes())


def missing_changes(place: Place, shown: Shown) -> list[str]:
    """Changes to memory that were shown and that its log does not have."""
    history = memory_log(place)
    ids = [event["change_id"] for event in shown if event["type"] == "memory_changed"]
    return [f"the change {id}" for id in ids if id and not history.change(id)]


# ── what a start after a fault leaves in order ───────────────────────────────────────────────


def damaged_history(place: Place) -> list[str]:
    """Lines of memory's log that cannot be read or stand in it twice."""
    history = memory_log(place)
    lines = history.path.read_bytes().count(b"\n") if history.path.exists() else 0
    damage = history.damage()
    faults = [f"history: {damage}"] if damage else []
    return faults + ["history has a change twice"] * (lines > len(history.changes()))


def unfit(place: Place) -> list[str]:
    """What is wrong after a start: sessions in which `check` finds damage after its repair, calls
    without a result, subagents whose end nobody was told, a torn history, what is left behind."""
    upkeep.check(place.home, repair=True)
    faults = [f"check: {fault}" for checked in upkeep.check(place.home) for fault in checked.faults]
    for path in session_paths(place):
        faults += _without_result(messages_in(path))
        for folder in (path.with_suffix("") / "agents").glob("*"):
            if not (folder / "task.json").exists():
                faults.append(f"left behind: {folder.name}, of a subagent that never was")
            elif not (folder / "result.json").exists():
                faults.append(f"no result of {folder.name}")
            elif folder.name not in path.read_text():
                faults.append(f"the model was not told of {folder.name}")
    return faults + damaged_history(place) + place.left_behind()


def _without_result(messages: Iterable[Message]) -> list[str]:
    calls = {call.id: call.name for message in messages for call in calls_of(message)}
    results = {result.call_id for message in messages for result in results_of(message)}
    return [f"no result for {name}" for id, name in calls.items() if id not in results]
