"""A text is replaced only by who was shown it whole, and loses no half of it unnamed."""

import pytest

from kode.errors import ToolError
from kode.memory import replacing
from kode.memory.guarded import Guarded
from kode.memory.replacing import IN_PART, fault, loses
from kode.memory.stored import version_of
from tests.memory import life
from tests.memory.life import OTHER_SESSION, use_tool
from tests.memory.notes import life as notes_life
from tests.memory.vault import life as vault_life
from tests.tables import for_each

FACTS = "# Tools\n\n" + "".join(
    f"- Tool {number}: prefers tool {number}\n" for number in range(300)
)
LONG = "It is " + "very " * 60 + "long"


def reason(error):
    return error.value.__cause__.reason


@for_each(
    ("seen", "after", "named", "why"),
    [
        ({}, LONG, (), "unread"),
        ({"a": IN_PART}, LONG, (), "in_part"),
        ({"a": version_of("other")}, LONG, (), "changed"),
        ({"a": version_of(LONG)}, "short", (), "loses"),
        ({"a": version_of(LONG)}, "short", (LONG,), None),
        ({"a": version_of(LONG)}, LONG[: len(LONG) // 2 + 1], (), None),
    ],
)
def test_the_reason_of_a_refusal_is_a_value(seen, after, named, why):
    assert fault(seen, "a", LONG, after, named) == why


def test_a_new_or_small_text_loses_nothing():
    assert fault({}, "a", "", "x") is None
    assert not loses("prefers tabs", "x")


async def test_three_hundred_facts_are_not_overwritten_with_a_line(tmp_path):
    path = vault_life.put(tmp_path, "facts/tools.md", FACTS)
    system = await vault_life.opened(tmp_path)
    new = {"path": "facts/tools.md", "content": "- Tool: none"}

    with pytest.raises(ToolError) as unread:
        await vault_life.use(system, "memory_write", **new)
    await vault_life.use(system, "memory_read", path="facts/tools.md")
    with pytest.raises(ToolError) as read:
        await vault_life.use(system, "memory_write", **new)

    assert (reason(unread), reason(read)) == ("unread", "loses")
    assert path.read_text() == FACTS
    patches = [{"oldText": FACTS.partition("\n\n")[2], "newText": "- Tool: none"}]
    await vault_life.use(system, "memory_patch", path="facts/tools.md", patches=patches)
    assert path.read_text() == "# Tools\n\n- Tool: none"


async def test_facts_shown_with_a_message_may_be_rewritten(tmp_path):
    vault_life.put(tmp_path, "facts/user.md", "# User Facts\n\n- Name: A\n")
    system = await vault_life.opened(tmp_path)
    await system.recall(life.turn(1))

    await vault_life.use(system, "memory_write", path="facts/user.md", content="- Name: B")

    assert "- Name: B" in vault_life.file(tmp_path, "facts/user.md").read_text()


async def test_a_fact_of_another_session_is_read_before_replacing(tmp_path):
    system = await life.opened(tmp_path)
    await system.inject("start")
    other = await life.opened(tmp_path, session_id=OTHER_SESSION)
    await life.use(other, action="add", target="user", content="the port is 80")
    (tool,) = system.tools()
    new = {"action": "replace", "target": "user", "old_text": "port", "content": "the port is 81"}

    with pytest.raises(ToolError) as error:
        await use_tool(tool, **new)
    assert reason(error) == "unread"

    await use_tool(tool, action="search", query="port")
    assert "the port is 81" in await use_tool(tool, **new)


async def test_a_note_is_replaced_only_by_who_found_it(tmp_path):
    system = await notes_life.opened(tmp_path)
    (note,) = await notes_life.keep(system, "the port is 80")
    update, recall = (notes_life.tool(system, name) for name in ("update_memory", "recall"))

    with pytest.raises(ToolError) as error:
        await use_tool(update, id=note.id, content="the port is 81")
    assert reason(error) == "unread"

    await use_tool(recall, query="port")
    assert "the port is 81" in await use_tool(update, id=note.id, content="the port is 81")


async def test_a_soul_not_shown_comes_with_the_refusal(tmp_path):
    system = await notes_life.opened(tmp_path)
    await system.writer.update_soul("You answer in Swedish.", who="user")
    tool = notes_life.tool(system, "update_soul")

    with pytest.raises(ToolError) as error:
        await use_tool(tool, content="You are terse.")

    assert "You answer in Swedish." in str(error.value)
    await use_tool(tool, content="You are terse, and answer in Swedish.")
    assert system.soul() == "You are terse, and answer in Swedish."


async def test_shown_versions_are_forgotten_with_their_messages(tmp_path):
    system = await life.opened(tmp_path)
    guarded = Guarded(system)
    replacing.note(system.seen, "a", "text")
    assert guarded.state()["seen"] == {"a": version_of("text")}

    await guarded.inject("compacted")

    assert "seen" not in guarded.state()
