"""No refusal repeats a credential: it goes to a model, a screen and a log."""

import pytest

from kode.config import MemoryConfig
from kode.errors import KodeError
from kode.memory import make_system
from kode.memory.commands import memory_command
from tests.memory.life import memory_context, use_tool

SECRET = "sk-abcdefghijklmnopqrstuvwxyz123456"
TEXT = f"the key is {SECRET}"
PATCH = [{"oldText": TEXT, "newText": "x"}]

CALLS = {
    "tiered": [
        ("memory", {"action": "add", "target": "user", "content": TEXT}),
        ("memory", {"action": "replace", "target": "user", "old_text": TEXT, "content": "x"}),
        ("memory", {"action": "replace", "target": "user", "old_text": "likes", "content": TEXT}),
        ("memory", {"action": "remove", "target": "user", "old_text": TEXT}),
    ],
    "vault": [
        ("memory_write", {"path": "facts/user.md", "content": TEXT}),
        ("memory_write", {"path": f"facts/{SECRET}/x.md", "content": "x"}),
        ("memory_read", {"path": f"facts/{SECRET}.md"}),
        ("memory_append", {"path": "facts/user.md", "entry": TEXT}),
        ("memory_append", {"path": "facts/user.md", "entry": "x", "summary": TEXT}),
        ("memory_patch", {"path": "facts/user.md", "patches": PATCH}),
    ],
    "notes": [
        ("remember", {"content": TEXT}),
        ("remember", {"content": "likes x", "tags": [TEXT]}),
        ("update_memory", {"id": SECRET, "content": "x"}),
        ("update_soul", {"content": TEXT}),
        ("forget", {"id": SECRET}),
    ],
}
COMMANDS = [
    ("tiered", ["add", "user", TEXT]),
    ("tiered", ["replace", "user", TEXT, "x"]),
    ("tiered", ["replace", "user", "likes", TEXT]),
    ("tiered", ["remove", "user", TEXT]),
]


async def opened(tmp_path, name):
    system = make_system(MemoryConfig(system=name))
    await system.open(memory_context(tmp_path), {})
    known = {
        "tiered": ("memory", {"action": "add", "target": "user", "content": "User likes tea"}),
        "vault": ("memory_write", {"path": "facts/user.md", "content": "- likes tea"}),
        "notes": ("remember", {"content": "User likes tea"}),
    }
    tool, arguments = known[name]
    await use_tool(tool_of(system, tool), **arguments)
    return system


def tool_of(system, name):
    return next(tool for tool in system.tools() if tool.name == name)


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [(name, *call) for name, calls in CALLS.items() for call in calls],
)
async def test_a_tool_that_refuses_a_credential_does_not_repeat_it(tmp_path, name, tool, arguments):
    system = await opened(tmp_path, name)

    with pytest.raises(KodeError) as refused:
        await use_tool(tool_of(system, tool), **arguments)

    assert SECRET not in str(refused.value)
    await system.close(1.0)


@pytest.mark.parametrize(("name", "command"), COMMANDS)
async def test_a_command_that_refuses_a_credential_does_not_repeat_it(tmp_path, name, command):
    system = await opened(tmp_path, name)

    with pytest.raises(KodeError) as refused:
        await memory_command(system, command)

    assert SECRET not in str(refused.value)
