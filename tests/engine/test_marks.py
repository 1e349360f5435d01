"""The mark of outside text: of a command by its decision, of a file by who wrote it."""

import json
from dataclasses import replace

from kode.events import ToolOutput as OutputEvent
from kode.session.entries import TaintEntry
from kode.session.provenance import Provenance
from kode.tool import ALLOWED, ToolContext, ToolOutput, tool
from kode.tools.shell import shell
from tests.engine.conftest import calls, says
from tests.undo.changes import undo_in


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


async def turn_of(bench, tmp_path, *replies, untrusted="", **fields):
    """A session that has done this in the folder, in whose commands a decision saw `untrusted`."""
    marks = Provenance(
        home=tmp_path / "home",
        folders=(tmp_path,),
        source=lambda: run.session.tainted_by,
        emit=lambda event: None,
    )
    tools = (look, put, page, command)
    given = {"tools": tools, "marks": marks, "gate": Gate(untrusted), **fields}
    run = bench(*replies, says("ok"), **given)
    await run.turn()
    return run


def sources(run):
    return [entry.source for entry in run.session.entries if isinstance(entry, TaintEntry)]


def reading(path):
    return calls(("look", json.dumps({"path": path})))


def writing(path):
    return calls(("put", json.dumps({"path": path})))


LEFT = "notes.md, written in a session that read outside text (https://evil.test/)"
FOLDER = "/var/tmp/F"


async def test_the_mark_passes_from_session_to_session_by_files(bench, tmp_path):
    await turn_of(bench, tmp_path, calls(("page", "")), writing("notes.md"))
    second = await turn_of(bench, tmp_path, reading("notes.md"), writing("b.md"))
    third = await turn_of(bench, tmp_path, reading("b.md"))

    assert sources(second) == [LEFT]
    assert f'source="{LEFT}"' in second.results[0].text
    assert sources(third) == [f"b.md, written in a session that read outside text ({LEFT})"]


async def test_a_decision_marks_a_command_and_the_files_it_wrote(bench, tmp_path):
    run = await turn_of(bench, tmp_path, calls(("command", "")), untrusted=FOLDER)
    later = await turn_of(bench, tmp_path, reading("out.md"))

    assert sources(run) == [FOLDER]
    assert run.results[0].text.startswith("<outside-")
    assert sources(later) == [f"out.md, written in a session that read outside text ({FOLDER})"]


async def test_a_command_that_fails_is_marked_by_its_decision_too(bench, tmp_path):
    run = await turn_of(bench, tmp_path, calls(("fail", "")), untrusted=FOLDER)

    assert sources(run) == [FOLDER]


async def test_the_output_of_an_interrupted_command_is_marked_too(bench):
    asked = calls(("shell", '{"command": "echo half way; sleep 60"}'))
    run = bench(asked, tools=(shell,), gate=Gate(FOLDER))
    await run.interrupted_turn(lambda: any("half" in event.text for event in run.of(OutputEvent)))

    assert sources(run) == [FOLDER]
    assert run.results[0].text.startswith("<outside-")


async def test_a_file_that_git_ignores_is_marked_too(bench, tmp_path):
    undo = undo_in(tmp_path / "undo")

    @tool(effect="run")
    async def build(context: ToolContext) -> ToolOutput:
        """A command whose changes nobody is shown."""
        (tmp_path / "ignored.md").write_text("from outside")
        undo.changed_by_commands.append(str(tmp_path / "ignored.md"))
        return ToolOutput(text="output")

    given = {"untrusted": FOLDER, "tools": (build,), "undo": undo}
    await turn_of(bench, tmp_path, calls(("build", "")), **given)

    assert undo.changed_by_commands == []
    assert (await turn_of(bench, tmp_path, reading("ignored.md"))).session.tainted_by
