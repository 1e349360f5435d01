"""Whatever a provider does, a person is told in one sentence, nothing of worth is lost, and the
next request is one that every server takes.

Here most faults meet the `run` command in this process, through the real SDKs and a real server,
and a handful the installed command; `make faults` takes all through the installed command.
"""

import contextlib
import json
import re
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from kode.cli import main as command
from kode.messages import Message, results_of
from kode.providers import warm_up
from kode.session import log, upkeep
from kode.session.log import Session
from tests.e2e.command import Finished, Place
from tests.effort import EVERYTHING
from tests.faults.provider_faults import (
    ASKING,
    ATTEMPTS,
    CALL,
    DONE,
    FAULTS,
    NO_FAULT,
    NOTES,
    Fault,
    Reply,
    told_lines,
    wire,
)
from tests.scripted_server import Recorded, ScriptedServer, chunks
from tests.wire_rules import faults_of

ROOT = Path(__file__).parents[2]
HANDFUL = {
    "refuses the connection",
    "stalls in its answer",
    "says 429 with Retry-After as a date",
    "shows a login page",
    "sends calls with the same ids",
    "reaches the limit in a call",
}


@dataclass
class Stand:
    """A home, a project and a server that speaks one wire format."""

    place: Place
    provider: str
    installed: bool
    server: ScriptedServer
    capture: pytest.CaptureFixture[str]

    def kode(self, *arguments: str) -> Finished:
        flags = ["--provider", self.provider, "--model", "some-model"]
        argv = [arguments[0], *flags, *arguments[1:]]
        if self.installed:
            return self.place.run(*argv)
        self.capture.readouterr()
        code = command.main([*argv[:1], "--cwd", str(self.place.project), *argv[1:]])
        out, err = self.capture.readouterr()
        return Finished(code, out, err)

    def configure(self, fault: Fault = NO_FAULT) -> None:
        retry = {
            "max_attempts": ATTEMPTS,
            "idle_timeout_s": fault.idle_s,
            "total_timeout_s": fault.total_s,
        }
        config = {"retry": retry, "memory": {"enabled": False}}
        (self.place.home / "config.json").write_text(json.dumps(config))

    @property
    def messages(self) -> list[Message]:
        """What a model is told of the one session there is."""
        (path,) = self.place.session_files
        header, entries, _ = log.read(path)
        session = Session(header=header, path=None)
        session.append(*entries)
        return session.messages

    @property
    def faults(self) -> list[str]:
        """What `kode session check` finds."""
        return [fault for checked in upkeep.check(self.place.home) for fault in checked.faults]


@pytest.fixture
def stand(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> Stand:
    provider, installed = request.param
    place = Place(tmp_path)
    place.home.mkdir(mode=0o700)
    (place.project / "notes.txt").write_text(NOTES)
    server = ScriptedServer(port=free_port())
    place.url = server.openai_url
    place.extra = {
        "PYTHONPATH": str(ROOT),
        "ANTHROPIC_BASE_URL": server.anthropic_url,
        "ANTHROPIC_API_KEY": place.environ["OPENAI_API_KEY"],
    }
    if not installed:
        for name, value in place.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
        warm_up(provider)
    return Stand(place, provider, installed, server, capsys)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def ways(name: str) -> list[tuple[str, bool]]:
    """(provider, whether through the installed command)."""
    if EVERYTHING:
        return [("openai", True), ("anthropic", True)]
    handful = [("openai", True)] if name in HANDFUL else []
    return [("openai", False), ("anthropic", False), *handful]


pytestmark = pytest.mark.sampled(of=4)

CASES = [
    pytest.param(way, fault, id=f"{fault.name}-{way[0]}{'-installed' if way[1] else ''}")
    for fault in FAULTS
    for way in ways(fault.name)
]


@pytest.mark.parametrize(("stand", "fault"), CASES, indirect=["stand"])
def test_a_fault_is_told_kept_and_got_over(stand: Stand, fault: Fault) -> None:
    stand.configure(fault)
    server = stand.server
    server.repeat_last = True
    server.play(fault.replies)
    with contextlib.ExitStack() as stack:
        if not fault.unreachable:
            stack.enter_context(server)
        first = stand.kode("run", "Look at my notes.")
        asked, kept, faults = server.count, told_lines(stand.messages), stand.faults
        if fault.unreachable:
            stack.enter_context(server)
        server.play([{"text": "Fine again."}])
        second = stand.kode("continue", "Go on.")

    assert first.code == fault.code, first.err
    assert_told(first, fault)
    assert asked == fault.asked
    assert kept[0] == "user: Look at my notes."
    assert len(kept) == len(fault.kept) + 1, kept
    for line, pattern in zip(kept[1:], fault.kept, strict=True):
        assert re.match(pattern, line), line[:500]
    assert faults == []
    assert (second.code, second.out) == (0, "Fine again.\n")
    assert_sendable(server.requests[-1], kept)


PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
FINAL = {"openai": b'"finish_reason":"tool_calls"', "anthropic": b'"stop_reason":"tool_use"'}
FRAMES = {
    name: list(chunks(Recorded("POST", path, {}, b""), ASKING)) for name, path in PATHS.items()
}

DROPS = [
    pytest.param(way, after, id=f"{after}-{way[0]}")
    for way in ways("")
    for after in range(len(FRAMES[way[0]]) + 1)
]


@pytest.mark.parametrize(("stand", "after"), DROPS, indirect=["stand"])
def test_a_dropped_stream_is_whole_or_asked_for_again(stand: Stand, after: int) -> None:
    stand.configure()
    frames = FRAMES[stand.provider]
    sent = b"".join(frames[:after])
    is_whole = FINAL[stand.provider] in sent
    dropped = wire(ASKING, drop_after=after)
    with stand.server as server:
        server.play([dropped, DONE if is_whole else dropped])
        first = stand.kode("run", "Look at my notes.")
        kept, faults = told_lines(stand.messages), stand.faults
        server.play([{"text": "Fine again."}])
        second = stand.kode("continue", "Go on.")

    assert faults == []
    if is_whole:
        assert (first.code, first.out) == (0, "All done.\n")
        assert [line.split(":")[0] for line in kept] == [
            "user",
            "assistant tool_calls",
            "tool",
            "assistant end",
        ]
    else:
        said = [piece for piece in ("Hello there,", " I look at i", "t now.") if piece in str(sent)]
        assert (first.code, first.out.rstrip("\n")) == (1, "".join(said).rstrip())
        assert "was lost" in first.err
        assert kept[1:] == ([f"assistant interrupted: {''.join(said)}".rstrip()] if said else [])
    assert "Traceback" not in first.err
    assert second.code == 0
    assert_sendable(server.requests[-1], kept)


@pytest.mark.parametrize("stand", ways(""), indirect=True, ids=lambda way: way[0])
def test_a_call_with_cut_arguments_never_runs(stand: Stand) -> None:
    stand.configure()
    whole = json.dumps({"path": "out.txt", "content": "é"}, ensure_ascii=False)
    cuts = [whole[:end] for end in range(len(whole))]
    replies: list[Reply] = []
    for stop in ("tool_calls", "length"):
        for cut in cuts:
            call = {"name": "write_file", "arguments": cut}
            good = {**CALL, "arguments": {**CALL["arguments"], "limit": 1 + len(replies)}}
            replies += [{"text": "Now.", "calls": [call], "stop": stop}, {"calls": [good]}]
    with stand.server as server:
        server.play([*replies, DONE])
        done = stand.kode("run", "Write.", "--permission-mode", "full", "--max-steps", "500")

    assert done.out == "All done.\n"
    assert not (stand.place.project / "out.txt").exists()
    results = [result for message in stand.messages for result in results_of(message)]
    assert [result.is_error for result in results] == [True, False] * (2 * len(cuts))
    assert stand.faults == []
    assert [fault for r in server.requests for fault in faults_of(r.path, r.body)] == []


def assert_told(done: Finished, fault: Fault) -> None:
    """One sentence for the end of it, none where there was none to tell; never a traceback."""
    assert re.search(fault.says, done.err, re.DOTALL), done.err
    assert done.out.startswith(fault.out), done.out[:500]
    assert bool(fault.out) == bool(done.out)
    assert "Traceback" not in done.err
    assert "Errno" not in done.err
    assert "sk-test-" not in done.err
    ends = [line for line in done.err.splitlines() if line.startswith("kode: ")]
    assert len(ends) == (fault.code != 0), done.err
    assert all(line.rstrip().endswith((".", "config")) for line in ends), done.err


def assert_sendable(request: Recorded, kept: list[str]) -> None:
    """The request is valid, and says what was kept."""
    assert faults_of(request.path, request.body) == []
    said = json.dumps(request.json["messages"], ensure_ascii=False)
    for words in ("Look at my notes.", "Go on."):
        assert words in said
    for line in kept:
        if line.startswith(("assistant interrupted", "assistant end: All")):
            assert line.partition(": ")[2][:40] in said
