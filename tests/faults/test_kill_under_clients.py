"""kode is killed at the calls that change files while an editor or another agent is connected:
the client gets an error and no silence, nothing it was shown is lost, and the session can be
loaded and continued.

Here a sample of the calls; `make faults` takes every one.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.session import upkeep
from tests.effort import EVERYTHING, sample
from tests.faults import strace
from tests.faults.kode_run import Place, call, kode, unfit

SAMPLE = 2
SILENCE_S = 60.0

SCRIPT = [
    {"match": "Are you there", "text": "Still here."},
    {"text": "I write.", "calls": [call("write_file", path="ships.txt", content="one\n")]},
    {"text": "I run.", "calls": [call("shell", command="true")]},
    {"text": "Written."},
]


@dataclass
class Wire:
    """A client that sees each message; a line is one."""

    process: "subprocess.Popen[str]"
    shown: list[dict[str, Any]] = field(default_factory=list)
    """The params of the notifications that came."""
    sent: int = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request; permission is given. Raises: EOFError when kode is gone."""
        self.sent += 1
        self._write({"id": self.sent, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break
            message = json.loads(line)
            if message.get("method") == "session/request_permission":
                outcome = {"outcome": "selected", "optionId": "once"}
                self._write({"id": message["id"], "result": {"outcome": outcome}})
            elif "method" in message:
                self.shown.append(message["params"])
            elif message.get("id") == self.sent:
                if "error" in message:
                    raise LookupError(message["error"]["message"])
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The state that a tool of the MCP server gives."""
        done = self.ask("tools/call", name=name, arguments=arguments)
        state: dict[str, Any] = done["structuredContent"]
        return state

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None


@contextmanager
def wired(place: Place, argv: Sequence[str]) -> Iterator[Wire]:
    """Starts kode and ends it. Silence ends it too, and fails the test."""
    process = subprocess.Popen(
        list(argv),
        env=place.environment(),
        cwd=place.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    silent = threading.Event()

    def end() -> None:
        silent.set()
        process.kill()

    guard = threading.Timer(SILENCE_S, end)
    guard.start()
    try:
        yield Wire(process)
    finally:
        assert process.stdin is not None
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.wait(SILENCE_S)
        guard.cancel()
        assert process.stdout is not None
        process.stdout.close()
        assert not silent.is_set(), "the client got neither an answer nor an error"


# ── an editor ────────────────────────────────────────────────────────────────────────────────


def prompt_by_editor(place: Place, wire: Wire) -> None:
    wire.ask("initialize", protocolVersion=1, clientCapabilities={})
    session = wire.ask("session/new", cwd=str(place.project), mcpServers=[])["sessionId"]
    text = {"type": "text", "text": "Write about ships."}
    wire.ask("session/prompt", sessionId=session, prompt=[text])


def load_by_editor(place: Place, wire: Wire, shown: Sequence[dict[str, Any]]) -> list[str]:
    before = _calls(shown)
    sessions = {one["sessionId"] for one in shown}
    wire.ask("initialize", protocolVersion=1, clientCapabilities={})
    faults = []
    for session in sessions:
        try:
            wire.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        except LookupError as error:
            if before:
                faults.append(f"it cannot be loaded: {error}")
            continue
        after = _calls(wire.shown)
        faults += [f"the call {id} is not shown" for id in before if id not in after]
        faults += [
            f"the call {id} was {status}, and is {after[id]}"
            for id, status in before.items()
            if id in after and status in ("completed", "failed") and after[id] != status
        ]
        text = {"type": "text", "text": "Are you there?"}
        ended = wire.ask("session/prompt", sessionId=session, prompt=[text])
        if ended["stopReason"] != "end_turn":
            faults.append(f"it continues with {ended}")
    return faults


def _calls(shown: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The state of each call, by its id."""
    states: dict[str, str] = {}
    for one in shown:
        update = one["update"]
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            known = states.get(update["toolCallId"], "pending")
            states[update["toolCallId"]] = update.get("status", known)
    return states


# ── another agent ────────────────────────────────────────────────────────────────────────────


def start_by_agent(place: Place, wire: Wire) -> None:
    _hello(wire)
    where = str(place.project)
    state = wire.tool("kode_start", prompt="Write about ships.", cwd=where, wait_s=30)
    wire.shown.append(state)
    while state["status"] == "asks":
        asked = state["question"]["id"]
        state = wire.tool(
            "kode_answer", session=state["session"], question=asked, choice="once", wait_s=30
        )
        wire.shown.append(state)
    assert state["status"] == "done", state


def reply_by_agent(place: Place, wire: Wire, shown: Sequence[dict[str, Any]]) -> list[str]:
    _hello(wire)
    faults = []
    listed = [one["session"] for one in wire.tool("kode_sessions")["sessions"]]
    for session in {one["session"] for one in shown}:
        if session not in listed:
            faults.append(f"{session} is not listed")
            continue
        state = wire.tool("kode_reply", session=session, prompt="Are you there?", wait_s=30)
        if state.get("result", {}).get("result") != "Still here.":
            faults.append(f"it continues with {state}")
    written = place.project / "ships.txt"
    if any(one["status"] == "done" for one in shown) and written.read_text() != "one\n":
        faults.append("what was done is not on disk")
    return faults


def _hello(wire: Wire) -> None:
    known = {"name": "a test", "version": "1"}
    wire.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=known)
    wire._write({"method": "notifications/initialized"})


# ── the kills ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Face:
    name: str
    words: tuple[str, ...]
    work: Callable[[Place, Wire], None]
    take_up: Callable[[Place, Wire, Sequence[dict[str, Any]]], list[str]]


FACES = (
    Face("acp", ("acp",), prompt_by_editor, load_by_editor),
    Face("mcp serve", ("mcp", "serve"), start_by_agent, reply_by_agent),
)


def made(folder: Path, face: Face) -> tuple[Place, list[str]]:
    """A place, and the command line that serves there."""
    place = Place(folder)
    script = folder / "script.json"
    place.project.parent.mkdir(parents=True)
    script.write_text(json.dumps(SCRIPT))
    place.prepare({"provider": "scripted", "script": str(script), "memory": {"enabled": False}})
    return place, kode(*face.words)


@pytest.mark.timeout(7200 if EVERYTHING else 600)
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_a_kill_gives_the_client_an_error_and_loses_nothing(face: Face, tmp_path: Path) -> None:
    strace.needed()
    place, argv = made(tmp_path / "whole", face)
    trace = tmp_path / "trace"
    with wired(place, strace.recording(argv, trace)) as wire:
        face.work(place, wire)
    calls = strace.parse(trace.read_text(encoding="ascii", errors="replace"))
    every = strace.kill_points(calls, [place.home, place.project])
    points = sample(every, SAMPLE, face.name)

    faults: list[str] = []
    kills = 0
    for number, (name, count) in enumerate(points):
        place, argv = made(tmp_path / str(number), face)
        with wired(place, strace.injected(argv, name, "signal=KILL", count)) as wire:
            try:
                face.work(place, wire)
            except EOFError:
                kills += 1
        with wired(place, argv) as again:
            found = face.take_up(place, again, wire.shown)
        upkeep.check(place.home, repair=True)
        faults += [f"{name} {count}: {fault}" for fault in (*found, *unfit(place, None))]

    print(f"\n{face.name}: {kills} kills at {len(points)} of {len(every)} calls")
    assert faults == [], "\n".join(faults)
    # Some calls come when the answer is on its way, or once the client has left.
    assert kills >= len(points) * 0.5
