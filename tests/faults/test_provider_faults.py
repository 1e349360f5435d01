"""Whatever a provider does, a person is told in one sentence, nothing of worth is lost, Ctrl-C ends
it at once, and the next request is one that every server takes.

Here the faults meet the `run` command in this process, through the real SDKs and a real server;
`make test-all` takes all through the installed command.
"""

import contextlib
import json
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.cli import main as command
from kode.messages import Message, results_of
from kode.providers import warm_up
from kode.session import upkeep
from tests.effort import EVERYTHING
from tests.faults.checks import messages_in, session_paths
from tests.faults.place import Place, Run
from tests.faults.provider_faults import (
    ASKING,
    ATTEMPTS,
    CALL,
    DONE,
    FAULTS,
    NOTES,
    Fault,
    Reply,
    outline,
    wire,
)
from tests.scripted_server import ScriptedServer
from tests.wire_rules import faults_of

pytestmark = pytest.mark.sampled(of=4)

PROVIDERS = ("openai", "anthropic")
FLAGS = ("--model", "some-model", "--no-memory")
FINE: Reply = {"text": "Fine again."}
HANG_GUARD_S = 30.0


class Stand:
    """A place whose model is a server that speaks one wire format."""

    def __init__(
        self, folder: Path, provider: str, capture: "pytest.CaptureFixture[str] | None"
    ) -> None:
        self.provider = provider
        self.server = ScriptedServer(port=free_port())
        self.place = Place(folder / "place", url=self.server.openai_url)
        key = self.place.environ["OPENAI_API_KEY"]
        self.place.extra |= {
            "ANTHROPIC_BASE_URL": self.server.anthropic_url,
            "ANTHROPIC_API_KEY": key,
        }
        self.capture = capture
        """Of the output of this process; None to run the installed command."""
        (self.place.project / "notes.txt").write_text(NOTES)

    def kode(self, name: str, *words: str) -> Run:
        argv = [name, "--provider", self.provider, *FLAGS, *words]
        if self.capture is None:
            return self.place.kode(*argv)
        self.capture.readouterr()
        code = command.main([*argv[:1], "--cwd", str(self.place.project), *argv[1:]])
        return Run(code, *self.capture.readouterr())

    @property
    def messages(self) -> list[Message]:
        """What a model is told of the one session there is."""
        (path,) = session_paths(self.place)
        return messages_in(path)

    @property
    def damage(self) -> list[str]:
        """What `kode session check` finds."""
        return [fault for checked in upkeep.check(self.place.home) for fault in checked.faults]

    def assert_sendable(self, kept: list[str]) -> None:
        """The last request is valid, and says what was kept."""
        request = self.server.requests[-1]
        assert faults_of(request.path, request.body) == []
        text = json.dumps(request.json["messages"], ensure_ascii=False)
        for line in ("user: Look at my notes.", "user: Go on.", *kept):
            if line.startswith(
                ("user: Look", "user: Go", "assistant interrupted", "assistant end: A")
            ):
                assert line.partition(": ")[2][:40] in text


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def stand_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, bool], Stand]:
    """Makes a stand for a provider, in this process or for the installed command."""

    def make(provider: str, installed: bool = False) -> Stand:
        if installed or EVERYTHING:
            return Stand(tmp_path, provider, None)
        stand = Stand(tmp_path, provider, capsys)
        for name, value in stand.place.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("kode.engine.reply.FIRST_DELAY_S", 0.001)
        warm_up(provider)
        return stand

    return make


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_fault_is_told_kept_and_got_over(
    stand_of: Callable[[str], Stand], provider: str, name: str
) -> None:
    stand, fault = stand_of(provider), FAULTS[name]
    timeouts = {"idle_timeout_s": fault.idle_s, "total_timeout_s": fault.total_s}
    stand.place.configure({"retry": {"max_attempts": ATTEMPTS, **timeouts}})
    server = stand.server
    server.repeat_last = True
    server.play(fault.replies)
    with contextlib.ExitStack() as stack:
        if not fault.unreachable:
            stack.enter_context(server)
        first = stand.kode("run", "Look at my notes.")
        asked, kept, damage = server.count, outline(stand.messages), stand.damage
        if fault.unreachable:
            stack.enter_context(server)
        server.play([FINE])
        second = stand.kode("continue", "Go on.")

    assert_told(first, fault)
    assert asked == fault.asked
    assert kept[0] == "user: Look at my notes."
    assert len(kept) == len(fault.kept) + 1, kept
    for line, pattern in zip(kept[1:], fault.kept, strict=True):
        assert re.match(pattern, line), line[:500]
    assert damage == []
    assert (second.code, second.out) == (0, "Fine again.\n")
    stand.assert_sendable(kept)


def assert_told(run: Run, fault: Fault) -> None:
    """One sentence for the end of it, none where there was none to tell; never a traceback."""
    assert run.code == fault.code, run.err
    assert re.search(fault.says, run.err, re.DOTALL), run.err
    assert run.out.startswith(fault.out), run.out[:500]
    assert bool(fault.out) == bool(run.out)
    assert re.search("Traceback|Errno|sk-test-", run.err) is None
    ends = [line for line in run.err.splitlines() if line.startswith("kode: ")]
    assert len(ends) == (fault.code != 0), run.err
    assert all(line.rstrip().endswith((".", "config")) for line in ends), run.err


def test_a_call_with_cut_arguments_never_runs(stand_of: Callable[[str], Stand]) -> None:
    stand = stand_of("openai")
    whole = json.dumps({"path": "out.txt", "content": "é"}, ensure_ascii=False)
    replies: list[Reply] = []
    for stop in ("tool_calls", "length"):
        for end in range(len(whole)):
            cut = {"name": "write_file", "arguments": whole[:end]}
            good = {**CALL, "arguments": {**CALL["arguments"], "limit": 1 + len(replies)}}
            replies += [{"text": "Now.", "calls": [cut], "stop": stop}, {"calls": [good]}]
    with stand.server as server:
        server.play([*replies, DONE])
        run = stand.kode("run", "--permission-mode", "full", "--max-steps", "500", "Write.")

    assert run.out == "All done.\n"
    assert not (stand.place.project / "out.txt").exists()
    results = [result for message in stand.messages for result in results_of(message)]
    assert [result.is_error for result in results] == [True, False] * (len(replies) // 2)
    assert stand.damage == []
    assert [fault for r in server.requests for fault in faults_of(r.path, r.body)] == []


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────────

LIMITED = {"error": {"status": 429, "retry_after_s": 60}}
FLOOD = wire({"text": "and so on "}, endless=True, chunk_delay_s=0)
MOMENTS: dict[str, tuple[Reply, str, str]] = {
    "before the answer": (wire(ASKING, stall_before_s=60), "step_started", ""),
    "in the thinking": (wire(ASKING, stall_after="Let me"), "thinking_delta", ""),
    "in the text": (wire(ASKING, stall_after="Hello"), "text_delta", "Hello there,"),
    "in a call": (wire(ASKING, stall_after="read_file"), "text_delta", "Hello there,"),
    "in a flood": (FLOOD, "text_delta", "and so on"),
    "before it is asked again": (LIMITED, "retry_scheduled", ""),
}
"""What the server does, the event after which Ctrl-C comes, what has arrived by then."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_exits_130_and_saves_the_partial_text(
    stand_of: Callable[[str, bool], Stand], moment: str
) -> None:
    reply, event, arrived = MOMENTS[moment]
    stand = stand_of("openai", True)
    with stand.server as server:
        server.play([reply, FINE])
        flags = ["--provider", "openai", *FLAGS, "--output-format", "stream-json"]
        with stand.place.start("run", *flags, "Look.") as process:
            assert process.stdout is not None
            for line in iter(process.stdout.readline, ""):
                if f'"type": "{event}"' in line:
                    break
            server.wait_for("count")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG_GUARD_S)
        again = stand.kode("continue", "Go on.")

    result = json.loads(out.splitlines()[-1])
    assert (process.returncode, err) == (130, "")
    assert result["status"] == "interrupted"
    assert result["result"].startswith(arrived)
    assert (again.code, again.out) == (0, "Fine again.\n")
    kept = [line for line in outline(stand.messages) if "interrupted: " in line]
    assert len(kept) == bool(arrived)
    assert all(f"interrupted: {arrived}" in line for line in kept)
    assert faults_of(server.requests[-1].path, server.requests[-1].body) == []
    assert stand.damage == []
