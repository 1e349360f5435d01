"""Ctrl-C at any moment of a provider's misbehaviour: the turn ends at once, what had arrived is
saved, the connection is closed, and the session goes on.

"At once" is counted in rounds of the event loop, since times depend on the machine.
"""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.events import Event, RetryScheduled, TextDelta, ThinkingDelta
from kode.session import upkeep
from tests.e2e.command import Place
from tests.effort import EVERYTHING
from tests.faults.provider_faults import ASKING, Reply, told_lines, wire
from tests.scripted_server import ScriptedServer
from tests.wire_rules import faults_of

ROOT = Path(__file__).parents[2]
MAX_ROUNDS = 10
"""They take one or two."""
HANG_GUARD_S = 30.0

Seen = Callable[[ScriptedServer, list[Event]], bool]


def shown(kind: type) -> Seen:
    return lambda _, events: any(isinstance(event, kind) for event in events)


def asked(server: ScriptedServer, events: list[Event]) -> bool:
    return server.count > 0


MOMENTS: dict[str, tuple[Reply, Seen, str]] = {
    "before the answer": (wire(ASKING, stall_before_s=60), asked, ""),
    "before the first chunk": (wire(ASKING, stall_after=0), asked, ""),
    "in the thinking": (wire(ASKING, stall_after="Let me"), shown(ThinkingDelta), ""),
    "in the text": (wire(ASKING, stall_after="Hello"), shown(TextDelta), "Hello there,"),
    "in a call": (wire(ASKING, stall_after="read_file"), shown(TextDelta), "Hello there,"),
    "in a flood": (
        wire({"text": "and so on "}, endless=True, chunk_delay_s=0),
        shown(TextDelta),
        "and so on",
    ),
    "before it is asked again": (
        {"error": {"status": 429, "retry_after_s": 60}},
        shown(RetryScheduled),
        "",
    ),
}
"""What the server does, when Ctrl-C comes, what has arrived by then."""


async def opened(
    folder: Path, provider: str, server: ScriptedServer, events: list[Event]
) -> Conversation:
    url = server.anthropic_url if provider == "anthropic" else server.openai_url
    flags = {"provider": provider, "model": "some-model", "base_url": url, "api_key": "k" * 20}
    flags |= {"permissions.mode": "full", "memory.enabled": False}
    loaded = load_config(folder / "home", folder, environ={}, flags=flags)
    return await open_conversation(Settings(loaded, emit=events.append), cwd=folder)


@pytest.mark.sampled(of=4)
@pytest.mark.parametrize("presses", [1, 5])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_interrupt_ends_the_turn_and_saves_the_partial_text(
    tmp_path: Path, provider: str, moment: str, presses: int
) -> None:
    reply, reached, arrived = MOMENTS[moment]
    events: list[Event] = []
    with ScriptedServer([reply, {"text": "Fine again."}]) as server:
        conversation = await opened(tmp_path, provider, server, events)
        turn = asyncio.ensure_future(conversation.turn("Look."))
        async with asyncio.timeout(HANG_GUARD_S):
            while not reached(server, events):
                await asyncio.sleep(0.001)
            rounds = 0
            while not turn.done():
                if rounds < presses:
                    turn.cancel()
                await asyncio.sleep(0)
                rounds += 1
            ended = await turn
            again = await conversation.turn("Go on.")
        request = server.requests[-1]
        if moment != "before it is asked again":
            server.wait_for_disconnect()
        await conversation.close()

    assert rounds <= MAX_ROUNDS
    assert ended.status == "interrupted"
    assert ended.result.startswith(arrived)
    assert (again.status, again.result) == ("success", "Fine again.")
    kept = told_lines(conversation.session.messages)
    assert any(line.startswith(f"assistant interrupted: {arrived}") for line in kept) == bool(
        arrived
    )
    assert faults_of(request.path, request.body) == []
    assert [c.faults for c in upkeep.check(Path(os.environ["KODE_HOME"]))] == [()]


INSTALLED = ["before the answer", "in the text", "in a flood", "before it is asked again"]


@pytest.mark.parametrize("moment", MOMENTS if EVERYTHING else INSTALLED)
@pytest.mark.parametrize("provider", ["openai", "anthropic"] if EVERYTHING else ["openai"])
def test_ctrl_c_exits_130_and_saves_the_partial_text(
    tmp_path: Path, provider: str, moment: str
) -> None:
    reply, _, arrived = MOMENTS[moment]
    place = Place(tmp_path)
    place.home.mkdir(mode=0o700)
    (place.home / "config.json").write_text('{"memory": {"enabled": false}}')
    with ScriptedServer([reply, {"text": "Fine again."}]) as server:
        place.url = server.openai_url
        place.extra = {
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_BASE_URL": server.anthropic_url,
            "ANTHROPIC_API_KEY": "k" * 20,
        }
        flags = ["--provider", provider, "--model", "some-model"]
        with place.start("run", "Look.", *flags, "--output-format", "stream-json") as process:
            lines = until(process, moment)
            if moment in ("before the answer", "before the first chunk"):
                server.wait_for_requests(1)
            process.send_signal(signal.SIGINT)
            rest, err = process.communicate(timeout=HANG_GUARD_S)
        result = json.loads((lines + rest).splitlines()[-1])
        again = place.run("continue", "Go on.", *flags)

    assert process.returncode == 130
    assert err == ""
    assert result["status"] == "interrupted"
    assert result["result"].startswith(arrived)
    assert (again.code, again.out) == (0, "Fine again.\n")
    assert faults_of(server.requests[-1].path, server.requests[-1].body) == []
    assert [checked.faults for checked in upkeep.check(place.home)] == [()]


def until(process: "subprocess.Popen[str]", moment: str) -> str:
    """What the command prints until the moment is there."""
    awaited = {"in the thinking": "thinking_delta", "before it is asked again": "retry_scheduled"}
    kind = "step_started" if moment.startswith("before the") else "text_delta"
    kind = awaited.get(moment, kind)
    lines = ""
    for line in iter(process.stdout.readline, "") if process.stdout else ():
        lines += line
        if f'"type": "{kind}"' in line:
            break
    return lines
