import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kode.errors import ToolError, UserError
from kode.events import Event, Notice, ToolOutput
from kode.session.entries import Header, JobEntry
from kode.session.log import create, load
from kode.session.messages import find_unreported, note_of
from kode.tool import ToolContext, ToolOutput as Output
from kode.tools.background import BackgroundCommands, job
from kode.tools.shell import shell
from tests.session.stories import new_session
from tests.tools.conftest import Call, lives, run_tool, until


@pytest.fixture
async def background(events: list[Event]) -> AsyncIterator[BackgroundCommands]:
    commands = BackgroundCommands(events.append)
    yield commands
    await commands.close()


@pytest.fixture
def context(context: ToolContext, background: BackgroundCommands) -> ToolContext:
    return dataclasses.replace(context, background=background)


async def _move(context: ToolContext, command: str) -> Output:
    """The output of a call whose command was sent to the background once it had begun."""
    call = asyncio.ensure_future(run_tool(context, shell, command=command))
    await until((context.place.cwd / "begun").exists)
    assert context.background.move()
    return await call


async def test_a_moved_command_runs_on_and_reports_its_end_once(
    context: ToolContext, background: BackgroundCommands, project: Path, events: list[Event]
) -> None:
    command = "echo begun; touch begun; until [ -e go ]; do sleep 0.02; done; echo last; exit 3"
    session = create(None, Header(cwd=str(project), model="m", provider="p"))
    background.enter(session)
    context = dataclasses.replace(context, session_id=None)

    output = await _move(context, command)
    assert "bg1" in output.summary
    assert output.text == "begun"
    assert find_unreported(session.entries) == []
    [known] = background.list_running()
    path = known.output_path
    assert str(path) in output.for_model
    assert path.read_text() == "begun\n"
    (project / "go").touch()
    await known.watch

    assert path.read_text() == "begun\nlast\n"
    assert known.outcome == "exit status 3"
    [ended] = find_unreported(session.entries)
    assert (ended.name, ended.outcome, ended.output) == ("bg1", "exit status 3", str(path))
    session.begin_prompt("go on", None, (), [ended])
    assert find_unreported(session.entries) == []
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert "bg1 has ended, exit status 3" in notice.text


@pytest.mark.parametrize("way", ["kill", "close"])
async def test_a_killed_or_closed_command_leaves_nothing_running(
    context: ToolContext, background: BackgroundCommands, project: Path, way: str
) -> None:
    await _move(context, "sleep 60 & echo $! > pid; touch begun; wait")
    pid = int((project / "pid").read_text())
    known = background.find("1")
    assert lives(pid)

    if way == "kill":
        await background.kill(known)
    else:
        await background.close()

    assert not lives(pid)
    assert known.outcome == {"kill": "killed by the person", "close": "ended with kode"}[way]
    assert background.list_running() == []


async def test_stopping_the_turn_does_not_stop_what_was_moved_before(
    context: ToolContext, background: BackgroundCommands, project: Path
) -> None:
    assert not background.move()
    await _move(context, "touch begun; sleep 60")
    context = dataclasses.replace(context, call_id="call-2")
    other = asyncio.ensure_future(run_tool(context, shell, command="touch other; sleep 60"))
    await until((project / "other").exists)

    other.cancel()
    await asyncio.gather(other, return_exceptions=True)

    assert [known.name for known in background.list_running()] == ["bg1"]
    assert not background.move()
    with pytest.raises(UserError, match=r"called '7'\. Known: bg1\."):
        background.find("7")


@pytest.mark.parametrize(
    ("printed", "shown", "rest"),
    [
        ("Continue? [y/N] ", "Continue? [y/N] ", "Continue? [y/N] ok\n"),
        (r"10%%\r20%%\033[2J\033]0;title\007\033[", "20%", "20%k\n"),
    ],
)
async def test_output_is_reported_while_the_command_waits(
    context: ToolContext, project: Path, printed: str, shown: str, rest: str
) -> None:
    events: asyncio.Queue[Event] = asyncio.Queue()
    context = dataclasses.replace(context, emit=events.put_nowait)
    command = f"printf '{printed}'; until [ -e go ]; do sleep 0.02; done; echo ok"

    call = asyncio.ensure_future(run_tool(context, shell, command=command))
    first = await asyncio.wait_for(events.get(), 10)
    (project / "go").touch()
    await call

    assert (first.text, first.partial) == ("", shown)
    texts = [events.get_nowait() for _ in range(events.qsize())]
    assert "".join(event.text for event in texts if isinstance(event, ToolOutput)) == rest


async def test_a_background_command_has_an_id_and_positions(call: Call, project: Path) -> None:
    command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; printf part; exit 3"

    begun = await call(shell, command=command, background=True)
    assert (begun.text, begun.exit_status) == ("one", None)
    assert "bg1" in begun.summary
    assert (await call(job, id="bg1")).text.startswith("(nothing new)\n")

    (project / "go").touch()
    ended = await call(job, id="1", wait_s=60)
    assert ended.text.startswith("two\npart\n[bg1: exit status 3;")
    assert (begun.ended_job, ended.ended_job) == ("", "bg1")
    assert (await call(job, id="bg1", start=0)).text.startswith("one\ntwo\n")


async def test_the_model_stops_its_job_and_waits_are_limited(
    call: Call, background: BackgroundCommands
) -> None:
    at_once = await call(shell, command="exit 3", background=True)
    assert (at_once.exit_status, background.commands) == (3, [])
    await call(shell, command="echo on; sleep 60", background=True)

    assert (await call(job, id="bg1", wait_s=0.05)).summary == "bg1: running"
    assert (await call(job, id="bg1", stop=True)).summary == "bg1: stopped"
    assert background.list_running() == []


async def test_a_long_output_leaves_out_its_middle(
    call: Call, background: BackgroundCommands
) -> None:
    await call(shell, command="echo on; seq 100000; echo last; sleep 60", background=True)
    known = background.find("bg1")
    await until(lambda: known.last_line() == "last")

    output = await call(job, id="bg1", start=0)

    assert len(output.text) < 13_000
    assert output.text.startswith("on\n1\n")
    assert "100000\nlast\n" in output.text
    assert str(known.output_path) in output.text


async def test_a_job_belongs_to_its_session_and_ends_with_it(
    context: ToolContext, background: BackgroundCommands, project: Path
) -> None:
    await _move(context, "touch begun; sleep 60")
    await run_tool(context, shell, command="echo on; sleep 60", background=True)
    other = dataclasses.replace(context, session_id="other")
    with pytest.raises(ToolError, match="another session"):
        await run_tool(other, job, id="bg2", stop=True)

    await background.leave("other")
    assert [known.name for known in background.list_running()] == ["bg1", "bg2"]
    await background.leave("s")

    assert [known.name for known in background.list_running()] == ["bg1"]
    assert background.find("bg2").outcome == "ended with its session"


async def test_a_background_command_is_refused_where_none_can_run(context: ToolContext) -> None:
    context = dataclasses.replace(context, background=None)
    with pytest.raises(ToolError):
        await run_tool(context, shell, command="echo on", background=True)
    with pytest.raises(ToolError):
        await run_tool(context, job, id="bg1")


def test_news_of_a_closed_session_waits_for_it(tmp_path: Path) -> None:
    session, other = (new_session(tmp_path) for _ in range(2))
    background = BackgroundCommands()
    background.enter(other)

    background.tell(session.id, "[It changed a.txt.]")
    assert (find_unreported(session.entries), find_unreported(other.entries)) == ([], [])
    background.enter(session)

    assert [note_of(entry) for entry in find_unreported(session.entries)] == ["[It changed a.txt.]"]
    session.close()
    other.close()


def test_a_job_without_an_end_has_ended_with_its_kode(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append(begun := JobEntry(name="bg1", title="serve"))
    session.close()  # as a kill does: nothing else is written
    again, _ = load(tmp_path, str(session.id))

    BackgroundCommands().enter(again)
    BackgroundCommands().enter(again)

    [ended] = find_unreported(again.entries)
    assert (ended.of, ended.outcome) == (begun.id, "ended with kode")
    again.close()
