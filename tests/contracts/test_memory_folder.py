"""The memory tool of Anthropic's models over every system: what its six commands write is the
system's own, and reads back as a plain folder would.
"""

import json
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kode.config import MemoryConfig
from kode.contracts import ToolContext
from kode.errors import ToolError
from kode.events import MemoryChanged, silent
from kode.memory import entry_lines, make_system
from kode.memory.commands import memory_command
from kode.memory.entry_lines import Row
from kode.memory.frame import ORDERS
from kode.permissions.decide import decide_call
from kode.permissions.rules import Rules, parse
from kode.workplace import NOWHERE
from tests.contracts.test_memory_contract import a_turn, context
from tests.effort import share
from tests.workplaces import make_call, workplace

FILES = {
    "tiered": ("user.md", "project/env.md"),
    "vault": ("facts/user.md", "facts/project.md"),
    "journal": ("MEMORY.md", None),
    "notes": ("notes.md", "project.md"),
}
"""A file of each, and another that holds nothing yet, where there is one."""
SECRET = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3rS5tU7" * 2


@dataclass
class Opened:
    """A system with the tool over it."""

    system: object
    name: str
    events: list = field(default_factory=list)

    @property
    def tool(self):
        return next(one for one in self.system.tools() if one.name == "memory")

    @property
    def file(self):
        return f"/memories/{FILES[self.name][0]}"

    async def __call__(self, command, **arguments):
        given = self.tool.check({"command": command, **arguments})
        place = ToolContext(
            place=NOWHERE, call_id="1", session_id="s", emit=self.events.append, seen_files={}
        )
        return (await self.tool.run(place, given)).text

    async def fault(self, command, **arguments):
        with pytest.raises(ToolError) as caught:
            await self(command, **arguments)
        return str(caught.value)

    async def text(self, path):
        """What a file holds, without the frame and the numbers."""
        shown = await self("view", path=path)
        return "\n".join(re.findall(r"^ *\d+\t(.*)$", shown, re.MULTILINE))


async def opened(root, name, **changes):
    memory = {"system": name, "tool_face": "anthropic", "merge_on_write": False}
    system = make_system(MemoryConfig(**memory))
    await system.open(context(root, **changes), {})
    await system.recall(a_turn(1, "remember this"))
    return Opened(system, name)


@pytest.fixture(params=FILES)
async def memory(request, tmp_path):
    one = await opened(tmp_path, request.param)
    yield one
    await one.system.close(1.0)


async def test_a_created_file_is_found_shown_explained_and_undone(memory):
    done = await memory("create", path=memory.file, file_text="- likes zebras\n- deploys by hand\n")
    assert f"File created successfully at: {memory.file}" in done

    assert "likes zebras" in await memory.text(memory.file)
    (hit, *_) = await memory.system.search("zebras", 5)
    assert "zebras" in hit.text
    assert "likes zebras" in await memory_command(memory.system, ["show"])
    why = await memory_command(memory.system, ["why", "zebras"])
    assert "by the model" in why
    assert 'you had asked: "remember this"' in why

    changes = [event.change_id for event in memory.events if isinstance(event, MemoryChanged)]
    assert changes
    for change in reversed(changes):
        await memory_command(memory.system, ["undo", change])
    assert "zebras" not in await memory.text(memory.file)


async def test_each_edit_is_its_own_change_with_an_undo(memory):
    await memory("create", path=memory.file, file_text="- likes zebras\n- deploys by hand\n")

    said = await memory("str_replace", path=memory.file, old_str="zebras", new_str="okapis")
    assert said.startswith("The memory file has been edited.")
    assert "likes okapis" in said
    said = await memory("insert", path=memory.file, insert_line=1, insert_text="- uses uv")
    assert f"The file {memory.file} has been edited." in said
    text = await memory.text(memory.file)
    assert {"- likes okapis", "- deploys by hand", "- uses uv"} <= {*text.split("\n")}

    await memory_command(memory.system, ["undo"])
    await memory_command(memory.system, ["undo"])
    text = await memory.text(memory.file)
    assert "- likes zebras" in text
    assert "uv" not in text


async def test_a_deleted_file_is_gone_and_comes_back_by_undo(memory):
    await memory("create", path=memory.file, file_text="- likes zebras\n")

    assert await memory("delete", path=memory.file) == f"Successfully deleted {memory.file}"

    assert not [hit for hit in await memory.system.search("zebras", 5) if "zebras" in hit.text]
    await memory_command(memory.system, ["undo"])
    assert "likes zebras" in await memory.text(memory.file)


async def test_deleting_a_file_is_one_change_to_undo(memory):
    lines = "- likes zebras\n- deploys by hand\n- uses uv\n"
    await memory("create", path=memory.file, file_text=lines)
    memory.events.clear()

    await memory("delete", path=memory.file)
    (change,) = [one.change_id for one in memory.events if isinstance(one, MemoryChanged)]
    await memory_command(memory.system, ["undo", change])
    back = await memory.text(memory.file)
    await memory_command(memory.system, ["undo"])

    assert sorted(filter(None, back.split("\n"))) == sorted(lines.split("\n")[:-1])
    assert not (await memory.text(memory.file)).strip()


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("tiered", "project", ("project/user.md", "project/env.md")),
        ("vault", "facts", ("facts/user.md", "facts/tools.md")),
    ],
)
async def test_deleting_a_folder_is_one_change_to_undo(tmp_path, name, folder, files):
    memory = await opened(tmp_path, name)
    for number, file in enumerate(files):
        text = f"- likes zebras {number}\n- uses uv {number}\n"
        await memory("create", path=f"/memories/{file}", file_text=text)

    await memory("delete", path=f"/memories/{folder}")
    assert not [hit for hit in await memory.system.search("zebras", 5) if "zebras" in hit.text]
    await memory_command(memory.system, ["undo"])

    for number, file in enumerate(files):
        text = await memory.text(f"/memories/{file}")
        assert {f"- likes zebras {number}", f"- uses uv {number}"} <= {*text.split("\n")}


async def test_a_folder_that_kode_writes_is_not_deleted(tmp_path):
    memory = await opened(tmp_path, "journal")
    await memory_command(memory.system, ["add", "history", "fixed the parser"])
    listed = await memory("view", path="/memories")

    await memory.fault("delete", path="/memories/history")

    assert await memory("view", path="/memories") == listed


async def test_a_folder_is_deleted_whole_or_not_at_all(tmp_path):
    memory = await opened(tmp_path, "vault")
    await memory("create", path="/memories/facts/a.md", file_text="- Likes: zebras")
    unread = memory.system.files.path("facts/b.md")
    unread.write_text("- Uses: uv\n")

    await memory.fault("delete", path="/memories/facts")

    assert "zebras" in await memory.text("/memories/facts/a.md")
    assert "uv" in unread.read_text()


async def test_a_renamed_file_holds_what_the_other_held(memory):
    _, other = FILES[memory.name]
    await memory("create", path=memory.file, file_text="- likes zebras\n")
    if other is None:
        said = await memory.fault("rename", old_path=memory.file, new_path="/memories/other.md")
        assert "keeps no /memories/other.md" in said
        assert "likes zebras" in await memory.text(memory.file)
        return

    said = await memory("rename", old_path=memory.file, new_path=f"/memories/{other}")

    assert f"Successfully renamed {memory.file} to /memories/{other}" in said
    assert "likes zebras" in await memory.text(f"/memories/{other}")
    assert "zebras" not in await memory.text(memory.file)
    await memory("create", path=memory.file, file_text="- uses uv\n")
    said = await memory.fault("rename", old_path=memory.file, new_path=f"/memories/{other}")
    assert said == f"The destination /memories/{other} already exists"


async def test_the_folder_lists_every_file_with_what_belongs_into_it(memory):
    await memory("create", path=memory.file, file_text="- likes zebras\n")

    shown = await memory("view", path="/memories")

    assert "Here're the files and directories up to 2 levels deep in /memories" in shown
    for name in filter(None, FILES[memory.name]):
        assert re.search(rf"^[\d.]+[BK]\t/memories/{re.escape(name)}$", shown, re.MULTILINE)
        assert f"/memories/{name}: " in shown
    assert ORDERS in shown


async def test_faults_are_worded_as_the_tool_documents_them(memory):
    path = memory.file
    await memory("create", path=path, file_text="- likes zebras\n- zebras like grass\n")

    said = await memory.fault("view", path="/memories/none.md")
    assert said == "The path /memories/none.md does not exist. Please provide a valid path."
    said = await memory.fault("create", path=path, file_text="x")
    assert said == f"File {path} already exists"
    said = await memory.fault("str_replace", path=path, old_str="okapi", new_str="x")
    assert "No replacement was performed, old_str `okapi` did not appear verbatim" in said
    said = await memory.fault("str_replace", path=path, old_str="zebras", new_str="x")
    assert "Multiple occurrences of old_str `zebras` in lines: 1, 2." in said
    said = await memory.fault("insert", path=path, insert_line=99, insert_text="x")
    assert "Invalid `insert_line` parameter: 99. It should be within the range [0, 2]." in said
    assert "does not exist" in await memory.fault("delete", path="/memories/none.md")
    said = await memory.fault("delete", path="/memories")
    assert said == "Cannot delete the /memories directory itself"
    said = await memory.fault("rename", old_path="/memories/none.md", new_path=path)
    assert "does not exist" in said
    assert "`path` is missing" in await memory.fault("view")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "memories/user.md",
        "/memoriesuser.md",
        "/memories/../../etc/passwd",
        "/memories/..",
        "/memories/a/../../x",
        "/memories\\..\\x",
        "/memories/%2e%2e/x",
        "/memories/\x00",
        "/memories/user.md\n",
        "",
    ],
)
async def test_no_path_leaves_the_folder(memory, path, tmp_path):
    (tmp_path / "x").write_text("secret of the disk")

    for command in ("view", "delete"):
        said = await memory.fault(command, path=path)
        assert "secret of the disk" not in said
    await memory.fault("create", path=path, file_text="- x")
    await memory.fault("rename", old_path=memory.file, new_path=path)
    assert (tmp_path / "x").read_text() == "secret of the disk"


async def test_lines_are_numbered_and_a_range_can_be_viewed(memory):
    lines = [f"- fact {number}" for number in range(1, 6)]
    await memory("create", path=memory.file, file_text="\n".join(lines))

    shown = await memory("view", path=memory.file, view_range=[2, 3])
    to_the_end = await memory("view", path=memory.file, view_range=[4, -1])

    assert "     2\t- fact 2\n     3\t- fact 3" in shown
    assert "fact 4" not in shown
    assert "     5\t- fact 5" in to_the_end
    assert "fact 3" not in to_the_end
    assert "two numbers" in await memory.fault("view", path=memory.file, view_range=[1])


async def test_a_credential_is_refused_and_then_nothing_was_changed(memory):
    await memory("create", path=memory.file, file_text="- likes zebras\n")

    text = f"- uses uv\n- key {SECRET}"
    said = await memory.fault("insert", path=memory.file, insert_line=1, insert_text=text)

    assert "credential" in said
    assert SECRET not in said
    assert "uv" not in await memory.text(memory.file)
    history = (memory.system.history.path).read_text()
    assert SECRET not in history


async def test_a_file_outside_memory_is_refused_naming_those_inside(memory):
    said = await memory.fault("create", path="/memories/deep/down/x.txt", file_text="- x")

    assert FILES[memory.name][0].split("/")[0] in said


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "full"])
async def test_a_tainted_session_is_asked_about_every_write(memory, tmp_path, mode):
    rules = Rules(allow=(parse("memory"),))
    calls = [
        ("create", {"path": memory.file, "file_text": "x"}),
        ("str_replace", {"path": memory.file, "old_str": "x", "new_str": "y"}),
        ("insert", {"path": memory.file, "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": memory.file}),
        ("rename", {"old_path": memory.file, "new_path": "/memories/y"}),
    ]
    for command, arguments in calls:
        given = {"command": command, **arguments}
        call = make_call(rules, mode, memory.tool, given, workplace(tmp_path), taint=True)
        assert decide_call(call).outcome == "ask"
    given = {"command": "view", "path": "/memories"}
    call = make_call(rules, mode, memory.tool, given, workplace(tmp_path), taint=True)
    assert decide_call(call).outcome == "allow"


async def test_the_other_writing_tools_are_absent_beside_the_folder(memory):
    writing = [tool.name for tool in memory.system.tools() if tool.effect != "memory-read"]

    assert writing == ["memory"]


async def test_it_is_declared_by_its_type(memory):
    assert memory.tool.spec.api_type == "memory_20250818"
    assert json.loads(json.dumps(dict(memory.tool.spec.parameters)))["required"] == ["command"]


# ── what only some have ──────────────────────────────────────────────────────────────────────


async def test_an_edit_over_a_limit_changes_nothing(tmp_path):
    memory = await opened(tmp_path, "tiered")
    await memory("create", path=memory.file, file_text="- likes zebras\n- uses uv\n")

    text = "\n".join(f"- fact {number} {'x' * 90}" for number in range(20))
    await memory.fault("str_replace", path=memory.file, old_str="- likes zebras", new_str=text)

    assert await memory.text(memory.file) == "- likes zebras\n- uses uv\n"


async def test_episodes_and_the_history_can_be_viewed_and_not_written(tmp_path):
    memory = await opened(tmp_path, "journal")
    await memory_command(memory.system, ["add", "history", "fixed the parser"])
    listed = await memory("view", path="/memories")
    (name,) = re.findall(r"(/memories/history/HISTORY-\S+)$", listed, re.MULTILINE)

    assert "fixed the parser" in await memory.text(name)
    await memory.fault("delete", path=name)
    await memory.fault("create", path="/memories/history/x.md", file_text="x")
    assert await memory("view", path="/memories") == listed


async def test_a_stale_fact_is_marked_until_it_is_edited(tmp_path):
    (tmp_path / "app.py").write_text("port = 80")
    native = make_system(MemoryConfig())
    await native.open(context(tmp_path), {})
    (tool,) = native.tools()
    place = ToolContext(place=NOWHERE, call_id="1", session_id="s", emit=silent, seen_files={})
    fact = {"action": "add", "target": "user", "content": "the port is 80", "source": "app.py:1"}
    await tool.run(place, tool.check(fact))
    (tmp_path / "app.py").write_text("port = 81")

    memory = await opened(tmp_path, "tiered")
    assert "may be stale: app.py:1 changed] the port is 80" in await memory.text(memory.file)
    await memory("str_replace", path=memory.file, old_str="is 80", new_str="is 81")

    # Whether the older stays beside it is decided by what each rests on.
    assert "- the port is 81" in (await memory.text(memory.file)).split("\n")


async def test_a_line_added_to_a_vault_meanwhile_is_not_overwritten(tmp_path):
    memory = await opened(tmp_path, "vault")
    await memory("create", path=memory.file, file_text="- Likes: zebras\n")
    path = memory.system.files.path("facts/user.md")
    path.write_text(path.read_text() + "- By hand: yes\n")

    await memory("insert", path=memory.file, insert_line=1, insert_text="- Uses: uv")

    text = await memory.text(memory.file)
    assert "By hand" in text
    assert "Uses" in text


# ── as a plain folder ────────────────────────────────────────────────────────────────────────

entries = st.text("ab c-*#`>\n", min_size=1, max_size=30).map(str.strip).filter(bool)


@given(st.lists(entries, unique=True, max_size=8))
def test_entries_read_back_from_the_file_they_are_shown_as(texts):
    plain = ["\n".join(line.rstrip() for line in text.split("\n")) for text in texts]

    shown = entry_lines.render([Row(key=text, text=text) for text in plain])

    assert entry_lines.parse(shown) == plain


@given(st.lists(entries, unique=True, max_size=6), st.lists(entries, unique=True, max_size=6))
def test_the_steps_of_an_edit_yield_the_edited_files_entries(old, new):
    rows = [Row(key=str(number), text=text) for number, text in enumerate(old)]
    text = entry_lines.render([Row(key="", text=entry) for entry in new])

    now = {row.key: entry_lines.parse(entry_lines.render([row]))[0] for row in rows}
    added = []
    for step in entry_lines.steps(rows, text):
        if step.key is None:
            added.append(step.text)
        elif step.text is None:
            del now[step.key]
        else:
            now[step.key] = step.text

    assert sorted([*now.values(), *added]) == sorted(entry_lines.parse(text))


WORDS = ("zebras", "okapis", "uv", "Fridays", "tabs")
commands = st.one_of(
    st.tuples(st.just("create"), st.lists(st.sampled_from(WORDS), min_size=1, unique=True)),
    st.tuples(st.just("str_replace"), st.sampled_from(WORDS), st.sampled_from(WORDS)),
    st.tuples(st.just("insert"), st.sampled_from((0, 1, 2)), st.sampled_from(WORDS)),
    st.tuples(st.just("delete")),
)


def plain(lines, command, *given):
    """What the command does to the lines of a plain file; None for a fault."""
    if command == "create":
        return None if lines else [f"- likes {word}" for word in given[0]]
    if not lines and command != "insert":
        return None
    if command == "delete":
        return []
    if command == "insert":
        at, word = given
        if at > len(lines) or f"- likes {word}" in lines:
            return None
        return [*lines[:at], f"- likes {word}", *lines[at:]]
    old, new = given
    if f"- likes {old}" not in lines or (new != old and f"- likes {new}" in lines):
        return None
    return [f"- likes {new}" if line == f"- likes {old}" else line for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=share(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sequence=st.lists(commands, max_size=8))
async def test_a_file_reads_as_a_plain_one_after_any_commands(name, sequence, tmp_path_factory):
    """But for the order of entries, which systems of entries keep by themselves."""
    memory = await opened(tmp_path_factory.mktemp("memory"), name)
    lines = []
    for command, *rest in sequence:
        wanted = plain(lines, command, *rest)
        if wanted is None:
            continue
        arguments = {
            "create": lambda rest=rest: {
                "file_text": "".join(f"- likes {word}\n" for word in rest[0])
            },
            "str_replace": lambda rest=rest: {"old_str": rest[0], "new_str": rest[1]},
            "insert": lambda rest=rest: {
                "insert_line": rest[0],
                "insert_text": f"- likes {rest[1]}",
            },
            "delete": dict,
        }[command]()
        await memory(command, path=memory.file, **arguments)
        lines = wanted
        text = await memory.text(memory.file)
        shown = [line for line in text.split("\n") if line.strip()]
        assert sorted(shown) == sorted(lines)
    await memory.system.close(1.0)
