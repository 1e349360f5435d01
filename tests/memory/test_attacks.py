"""What a session that read outside text wants to remember waits for a person, whatever it says.

Through the doors of every system go the same 200 texts, with a model that does whatever they ask.
Then a clean session opens, and is given everything that memory gives: none of the texts is in it
until a person has said yes.
"""

import asyncio
import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from kode.config import MemoryConfig, load_config
from kode.contracts import PermissionMode, ToolContext, ToolOutput
from kode.conversation import open_conversation
from kode.events import silent
from kode.memory import make_system
from kode.memory.commands import memory_command
from kode.messages import Message, Text
from kode.permissions.decide import decide_call
from kode.permissions.gate import Answer
from kode.permissions.rules import Rules, parse
from tests.memory.attacks import attacks
from tests.memory.life import NOON, lived, memory_context, said, turn
from tests.memory.replies import calls, says
from tests.workplaces import make_call, workplace

SYSTEMS = ("tiered", "vault", "journal", "notes")
ATTACKS = attacks()
SOME = ATTACKS[::50]
CLEAN = "20260401-090000-abcdef"
LATER = NOON + timedelta(days=9)


class Obeying:
    """A model that remembers the attack wherever memory asks it anything."""

    def __init__(self, name, attack, *, down=False):
        self.name, self.attack, self.down = name, attack, down

    async def reply(self, request):
        if self.down:
            raise RuntimeError("down")
        if self.name in ("tiered", "journal"):
            return says(json.dumps({"narrative": self.attack, "facts": [self.attack]}))
        if self.name == "notes":
            return says(self.attack)
        if len(request.messages) > 1:
            return says("nothing")
        write = {"path": "facts/user.md", "content": f"# User\n- {self.attack}"}
        return calls(("memory_write", write))


async def opened(root, name, *, session=CLEAN, attack=None, down=False, **changes):
    """A memory of one session; with an attack, one whose model obeys it and that is tainted."""
    model = Obeying(name, attack, down=down) if attack else None
    context = memory_context(
        root,
        session_id=session,
        ask_reply=model.reply if model else None,
        tainted=lambda: bool(attack),
    )
    settings = MemoryConfig(system=name, min_turns_for_extraction=1)
    system = make_system(settings)
    await system.open(replace(context, **changes), {})
    return system


# ── the doors ────────────────────────────────────────────────────────────────────────────────


def outside(number, attack, **changes):
    """A turn that read outside text and repeats it."""
    changes = {"tools": (("fetch_url", "page"), ("shell", "make")), "steps": 3, **changes}
    return turn(number, "what does the page say?", answer=attack, tainted=True, **changes)


def spoken(attack):
    return said("what does the page say?", attack, "thanks", attack)


async def at_the_end(system, attack):
    """Of the process, or of the session by `/new`."""
    await system.after_turn(outside(1, attack))
    await system.before_drop(spoken(attack), "exit" if len(attack) % 2 else "reset")
    await system.close(60)


async def in_the_middle_of_the_turn(system, attack):
    """The window overflows before the turn ends: memory has not been told of the page yet."""
    await system.recall(turn(1, "what does the page say?"))
    await system.before_drop(spoken(attack), "window")
    await system.close(60)


async def of_a_session_that_is_continued_and_left(system, attack):
    """It was tainted in an earlier process; this one hears of no turn."""
    await system.before_drop(spoken(attack), "exit")
    await system.close(60)


async def of_a_session_that_ends_unheard(system, attack):
    await system.after_turn(outside(1, attack))
    await system.close(60)


async def from_a_subagent(system, attack):
    await system.after_turn(outside(1, attack, tools=(("delegate_tasks", "two tasks"),)))
    await system.before_drop(spoken(attack), "exit")
    await system.close(60)


async def from_a_compaction(system, attack):
    summary = Message(role="user", parts=(Text(text=attack, source="compaction"),))
    await system.before_drop(spoken(attack), "window")
    await system.before_drop((summary, *lived("go on")), "exit")
    await system.close(60)


DOORS = (
    at_the_end,
    in_the_middle_of_the_turn,
    of_a_session_that_is_continued_and_left,
    of_a_session_that_ends_unheard,
    from_a_subagent,
    from_a_compaction,
)


async def attacked(root, name, door, texts=ATTACKS, *, down=False):
    for number, attack in enumerate(texts):
        session = f"20260301-{number:06}-abcdef"
        await door(await opened(root, name, session=session, attack=attack, down=down), attack)


async def later(root, name, attack):
    """A clean session a week later finishes what the others left, and tidies up."""
    system = await opened(root, name, attack=attack, tainted=lambda: False, now=lambda: LATER)
    await system.maintain()
    await system.close(60)


# ── what a clean session gets ────────────────────────────────────────────────────────────────


async def active(root, name, texts=ATTACKS):
    """Those of the texts that a clean session is given, by whatever way."""
    system = await opened(root, name, now=lambda: LATER)
    injection = await system.inject("start")
    given = [injection.system, injection.first_user]
    given += [section.content for section in await system.snapshot()]
    given += [await read(system, tool) for tool in system.tools() if tool.name in READS]
    for text in texts:
        given.append(await system.recall(turn(1, text)))
        given += [await read(system, tool, text) for tool in system.tools() if tool.name in FINDS]
    await system.close(1.0)
    everything = plain("\n".join(given))
    return [text for text in texts if plain(text) in everything]


READS = {"memory": {"action": "read"}, "memory_read": {"path": "facts/user.md"}, "memory_list": {}}
FINDS = {"memory": "query", "history_search": "query", "recall": "query"}


async def read(system, tool, text=None):
    """What a tool of the model gives; nothing of what it marks as text from outside, since that
    taints the session that reads it."""
    context = ToolContext(
        place=workplace(system._context.cwd),
        call_id="1",
        session_id=CLEAN,
        emit=silent,
        seen_files={},
    )
    given = READS.get(tool.name, {}) if text is None else {FINDS[tool.name]: telling(text)}
    action = {"action": "search"} if text is not None and tool.name == "memory" else {}
    try:
        output = await tool.run(context, tool.check({**given, **action}))
    except Exception:
        return ""
    if isinstance(output, ToolOutput):
        return "" if output.untrusted else output.text
    return output


def telling(text):
    """The most telling word of an attack."""
    return max(re.findall(r"[\w.-]*\d{4}[\w.-]*", text) or text.split(), key=len)


def plain(text):
    return " ".join(re.sub(r"&lt;", "<", text).split())


# ── none of them becomes active ──────────────────────────────────────────────────────────────


def test_there_are_two_hundred_and_each_is_another():
    assert len(set(ATTACKS)) == 200


@pytest.mark.sampled(of=4)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(
    "door",
    [DOORS[0], *(pytest.param(door, marks=pytest.mark.slow) for door in DOORS[1:])],
    ids=lambda door: door.__name__,
)
async def test_nothing_becomes_active_without_a_yes(tmp_path, name, door, every):
    """With all texts, or with a share: each system then meets every text at one of the doors."""
    texts = ATTACKS if every else ATTACKS[DOORS.index(door) :: len(DOORS)]
    await attacked(tmp_path, name, door, texts)
    await later(tmp_path, name, texts[0])

    assert await active(tmp_path, name, texts) == []


@pytest.mark.parametrize("name", SYSTEMS)
async def test_no_attack_becomes_active_when_a_later_session_catches_up(tmp_path, name):
    await attacked(tmp_path, name, at_the_end, SOME, down=True)

    for attack in SOME[:3]:
        await later(tmp_path, name, attack)

    assert await active(tmp_path, name, SOME) == []


@pytest.mark.parametrize("name", SYSTEMS)
async def test_a_waiting_entry_still_waits_after_export_and_import(tmp_path, name):
    here = tmp_path / "here"
    await attacked(here, name, at_the_end, SOME)
    source = await opened(here, name)
    await memory_command(source, ["export", str(tmp_path / "all.jsonl")])

    imported = await opened(tmp_path / "imported", name)
    if (tmp_path / "all.jsonl").read_text():
        await memory_command(imported, ["import", str(tmp_path / "all.jsonl")])
    assert await active(tmp_path / "imported", name, SOME) == []


@pytest.mark.parametrize("name", SYSTEMS)
async def test_with_a_yes_it_becomes_active(tmp_path, name):
    """Or the tests above could not fail."""
    attack = ATTACKS[4]
    await attacked(tmp_path, name, at_the_end, [attack])
    system = await opened(tmp_path, name)
    listed = await memory_command(system, ["approve"])

    for line in listed.splitlines():
        if not line.startswith(" "):
            await memory_command(system, ["approve", line.split()[0].strip("[]")])
    await later(tmp_path, name, attack)

    assert await active(tmp_path, name, [attack]) == [attack]


# ── the tools ────────────────────────────────────────────────────────────────────────────────

WRITES = {
    "tiered": [
        ("memory", {"action": "add", "target": "user", "content": "X"}),
        ("memory", {"action": "replace", "target": "user", "old_text": "a", "content": "X"}),
        ("memory", {"action": "consolidate", "target": "user"}),
    ],
    "vault": [
        ("memory_write", {"path": "facts/user.md", "content": "X"}),
        ("memory_patch", {"path": "facts/user.md", "patches": [{"oldText": "a", "newText": "X"}]}),
        ("memory_append", {"path": "facts/user.md", "entry": "X"}),
    ],
    "journal": [],
    "notes": [
        ("remember", {"content": "X"}),
        ("update_memory", {"id": "0123456789abcdef", "content": "X"}),
        ("update_soul", {"content": "X"}),
    ],
}


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "full"])
@pytest.mark.parametrize("name", SYSTEMS)
async def test_a_tainted_session_is_asked_about_every_write(tmp_path, name, mode: PermissionMode):
    system = await opened(tmp_path, name)
    tools = {tool.name: tool for tool in system.tools()}
    rules = Rules(allow=(parse("memory"), *(parse(tool) for tool in tools)))

    for tool, arguments in WRITES[name]:
        decision = decide_call(
            make_call(
                rules,
                mode,
                tools[tool],
                arguments,
                workplace(tmp_path),
                taint=True,
            )
        )
        assert decision.outcome == "ask"
    written = {tool for tool, _ in WRITES[name]}
    assert written | {"forget", *READS, *FINDS} >= tools.keys()
    await system.close(1.0)


@pytest.mark.parametrize("answer", [None, "no", "once"])
@pytest.mark.parametrize("name", [name for name in SYSTEMS if WRITES[name]])
async def test_in_a_conversation_only_a_yes_lets_a_tool_write(tmp_path, monkeypatch, name, answer):
    home, attack = tmp_path / "home", ATTACKS[4]
    monkeypatch.setenv("KODE_HOME", str(home))
    tool, arguments = WRITES[name][0]
    call = json.loads(json.dumps(arguments).replace('"X"', json.dumps(attack)))
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps([{"calls": [{"name": tool, "arguments": call}]}, *[{"text": "Done."}] * 20])
    )
    flags = {"provider": "scripted", "script": str(script), "memory.system": name}
    loaded = load_config(home, tmp_path, environ={}, flags={**flags, "permissions.mode": "full"})

    async def ask(question):
        return Answer(choice=answer)

    talk = await open_conversation(
        loaded, cwd=tmp_path, emit=silent, ask=None if answer is None else ask
    )
    page = Text(text=attack, source="outside")
    await talk.turn("what does the page say?", attachments=[page])
    await talk.close()

    found = await asyncio.to_thread(remembered, home, attack)
    assert found == (answer == "once")


def remembered(home, attack):
    """Whether an attack stands in any file of memory but the history and what waits."""
    files = [path for path in (home / "memory").rglob("*") if path.is_file()]
    kept = [path for path in files if path.name != "history.jsonl" and "pending" not in path.parts]
    return any(attack.encode() in path.read_bytes() for path in kept)
