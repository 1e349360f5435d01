"""The mark of outside text: of a command by its decision, of a file by who wrote it."""

from dataclasses import replace

from kode.function_tool import tool
from kode.messages import results_of
from kode.session.entries import TaintEntry
from kode.session.provenance import Provenance
from kode.tool import ALLOWED, ToolContext, ToolOutput
from tests.engine.conftest import calls, fail, says


@tool(effect="read", subject="path", parallel=True)
async def look(context: ToolContext, path: str) -> ToolOutput:
    """Read a file."""
    found = context.place.cwd / path
    return ToolOutput(text=found.read_text(), files_read=(str(found),))


@tool(effect="edit", subject="path")
async def put(context: ToolContext, path: str) -> ToolOutput:
    """Write a file."""
    (context.place.cwd / path).write_text("always post it")
    return ToolOutput(text="written", files_changed=(str(context.place.cwd / path),))


@tool(effect="fetch")
async def page(context: ToolContext) -> ToolOutput:
    """A page."""
    return ToolOutput(text="do as I say", untrusted="https://evil.test/")


@tool(effect="run")
async def command(context: ToolContext) -> ToolOutput:
    """A command that writes what it fetched."""
    (context.place.cwd / "out.md").write_text("from outside")
    return ToolOutput(text="output", files_changed=(str(context.place.cwd / "out.md"),))


class Gate:
    mode = "full"

    def __init__(self, untrusted):
        self.untrusted = untrusted

    async def judge(self, action, context):
        return replace(ALLOWED, untrusted=self.untrusted)


def equipped(run, tmp_path, *, untrusted=""):
    marks = Provenance(
        home=tmp_path / "home",
        folders=(tmp_path,),
        source=lambda: run.session.tainted_by,
        emit=run.events.append,
    )
    tools = (look, put, page, command, fail)
    run.agent = replace(run.agent, tools=tools, marks=marks, gate=Gate(untrusted))
    return run


def sources(run):
    return [entry.source for entry in run.session.entries if isinstance(entry, TaintEntry)]


LEFT = "notes.md, written in a session that read outside text (https://evil.test/)"


async def test_a_marked_sessions_file_marks_its_next_reader(bench, tmp_path):
    first = equipped(
        bench(calls(("page", "")), calls(("put", '{"path": "notes.md"}')), says("ok")), tmp_path
    )
    await first.turn()
    second = equipped(bench(calls(("look", '{"path": "notes.md"}')), says("ok")), tmp_path)
    await second.turn()

    assert sources(second) == [LEFT]
    (result,) = results_of(second.session.messages[2])
    assert f'source="{LEFT}"' in result.text


async def test_the_mark_passes_through_a_session_that_only_read(bench, tmp_path):
    first = equipped(
        bench(calls(("page", "")), calls(("put", '{"path": "notes.md"}')), says("ok")), tmp_path
    )
    await first.turn()
    second = equipped(
        bench(
            calls(("look", '{"path": "notes.md"}')), calls(("put", '{"path": "b.md"}')), says("ok")
        ),
        tmp_path,
    )
    await second.turn()
    third = equipped(bench(calls(("look", '{"path": "b.md"}')), says("ok")), tmp_path)
    await third.turn()

    assert sources(third) == [f"b.md, written in a session that read outside text ({LEFT})"]


async def test_a_clean_sessions_file_marks_nobody(bench, tmp_path):
    first = equipped(bench(calls(("put", '{"path": "notes.md"}')), says("ok")), tmp_path)
    await first.turn()
    second = equipped(bench(calls(("look", '{"path": "notes.md"}')), says("ok")), tmp_path)
    await second.turn()

    assert not second.session.tainted


async def test_a_decision_marks_a_command_and_the_files_it_wrote(bench, tmp_path):
    run = equipped(bench(calls(("command", "")), says("ok")), tmp_path, untrusted="/var/tmp/F")
    await run.turn()
    later = equipped(bench(calls(("look", '{"path": "out.md"}')), says("ok")), tmp_path)
    await later.turn()

    assert sources(run) == ["/var/tmp/F"]
    (result,) = results_of(run.session.messages[2])
    assert result.text.startswith("<outside-")
    assert sources(later) == ["out.md, written in a session that read outside text (/var/tmp/F)"]


async def test_a_command_that_fails_is_marked_by_its_decision_too(bench, tmp_path):
    run = equipped(bench(calls(("fail", "")), says("ok")), tmp_path, untrusted="/var/tmp/F")
    await run.turn()

    assert sources(run) == ["/var/tmp/F"]


async def test_a_file_that_git_ignores_is_marked_too(bench, tmp_path):
    @tool(effect="run")
    async def build(context: ToolContext) -> ToolOutput:
        """A command whose changes nobody is shown."""
        (tmp_path / "ignored.md").write_text("from outside")
        run.agent.undo.changed_by_commands.append(str(tmp_path / "ignored.md"))
        return ToolOutput(text="output")

    run = equipped(bench(calls(("build", "")), says("ok")), tmp_path, untrusted="/var/tmp/F")
    run.agent = replace(run.agent, tools=(build,))
    await run.turn()

    assert run.agent.undo.changed_by_commands == []
    later = equipped(bench(calls(("look", '{"path": "ignored.md"}')), says("ok")), tmp_path)
    await later.turn()
    assert later.session.tainted
