"""The vault: files that the model reads and writes, their summaries, the index, the reflector."""

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kode.errors import MemoryRefused, ToolError
from kode.memory.contract import Turn
from kode.memory.policy import Addition
from kode.memory.statement import Rank
from kode.memory.system import Memory
from kode.memory.vault import generate_summary, label_place, month_place, place_in, read_summary
from kode.messages import Message, Text, ToolCall, results_of
from kode.provider import Request
from kode.session.record import Project
from tests.memory.sessions import Sessions, call
from tests.tables import for_each


@pytest.fixture
def home(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path, system="vault", project=tmp_path)


def path_of(memory: Memory, name: str) -> Path:
    return memory.context.root / place_in(memory.store.project, name)


async def write(memory: Memory, name: str, text: str) -> dict[str, Any]:
    return json.loads(await call(memory, "memory_write", path=name, content=text))


async def append(memory: Memory, name: str, text: str, **more: str) -> dict[str, Any]:
    return json.loads(await call(memory, "memory_append", path=name, entry=text, **more))


async def test_an_empty_vault_has_no_files_and_no_index(home: Sessions) -> None:
    memory = await home.open()
    assert await call(memory, "memory_list") == "[]"
    assert (await memory.inject("start")).first_user == ""
    assert not (home.root / "memory/vault").exists()


async def test_a_written_file_has_a_summary_and_its_lines(home: Sessions) -> None:
    memory = await home.open()
    assert (await write(memory, "facts/user.md", "- Name: Zhang San\n- Role: dev\n"))["success"]
    path = home.root / "memory/vault/facts/user.md"
    assert path.read_text() == ("> Summary: name, role\n\n- Name: Zhang San\n- Role: dev\n")
    await write(memory, "facts/user.md", "- Name: Li Si\n- Role: dev\n")
    assert "Zhang" not in path.read_text()
    rows = json.loads(await call(memory, "memory_list"))
    size = path.stat().st_size
    assert rows == [{"path": "facts/user.md", "summary": "name, role", "size": size}]


@for_each(
    "path",
    [
        *("../secret", "/etc/passwd", "facts/../../x", "facts/\x00a.md", "x.md"),
        *("facts/a/b.md", "facts/a.txt", "~/x.md", "facts/.a.md", "a\\b"),
    ],
)
def test_a_path_outside_the_vault_is_refused_by_name(path: str) -> None:
    with pytest.raises(MemoryRefused) as caught:
        place_in(Project(Path("/p"), "0" * 16, True), path)
    assert repr(path) in str(caught.value)


async def test_a_link_out_of_the_vault_is_not_read(home: Sessions) -> None:
    memory = await home.open()
    path = path_of(memory, "facts/link.md")
    path.parent.mkdir(parents=True)
    path.symlink_to("/etc/hosts")
    with pytest.raises(ToolError, match=r"facts/link\.md"):
        await call(memory, "memory_read", path="facts/link.md")


async def test_patches_apply_all_or_none_and_literally(home: Sessions) -> None:
    memory = await home.open()
    await write(memory, "facts/project.md", "- Port: 80\n- Host: a\n")
    path = path_of(memory, "facts/project.md")
    before = path.read_bytes()
    good = {"oldText": "Port: 80", "newText": "Port: $& $1"}
    bad = {"oldText": "Color: red", "newText": "x"}
    with pytest.raises(ToolError, match="Patch 2 of 2"):
        await call(memory, "memory_patch", path="facts/project.md", patches=[good, bad])
    assert path.read_bytes() == before

    other = {"old_text": "Host: a", "new_text": "Host: b"}
    said = await call(memory, "memory_patch", path="facts/project.md", patches=[good, other])
    assert json.loads(said)["appliedCount"] == 2
    assert path.read_text().endswith("- Port: $& $1\n- Host: b\n")


async def test_a_line_in_the_persons_words_outweighs_the_models(home: Sessions) -> None:
    memory, name = await home.open(), "facts/project.md"
    home.typed += ["The port is 80.", "Is the limit 5?"]
    await append(memory, name, "- The port is 80", quote="The port is 80")
    await append(memory, name, "- The limit is 5", quote="the limit 5")
    ranks = [memory.store.rank(fact) for fact in memory.store.statements()]
    assert ranks == [Rank.QUOTED, Rank.MODEL]
    await call(memory, "memory_read", path=name)
    await write(memory, name, "- The port is 81\n- The limit is 5\n")
    [(first, _)] = memory.store.view().conflicts()
    assert first.text == "- The port is 80"
    removal = [{"oldText": "- The port is 80\n", "newText": ""}]
    await call(memory, "memory_patch", path=name, patches=removal)
    assert sorted(home.texts(memory)) == ["- The limit is 5", "- The port is 81"]


async def test_a_quotation_vouches_for_one_line(home: Sessions) -> None:
    memory = await home.open()
    home.typed += ["The port is 80.", "I drink tea."]
    lines = "- The port is 80\n- The limit is 5"
    await append(memory, "facts/project.md", lines, quote="The port is 80")
    for text, quote in (("- Port: 80", "The port is 80"), ("- Tea", "I drink tea")):
        values = {"path": "facts/user.md", "content": text, "quote": quote}
        await call(memory, "memory_write", **values)
    ranks = {fact.text: memory.store.rank(fact) for fact in memory.store.statements()}
    assert ranks == {
        **dict.fromkeys(lines.split("\n"), Rank.MODEL),
        **dict.fromkeys(("- Port: 80", "- Tea"), Rank.QUOTED),  # a line left out stays
    }


async def test_an_episode_goes_to_the_present_month_with_a_summary(home: Sessions) -> None:
    memory = await home.open()
    said = await append(memory, "episodes/2019-01.md", "## Logger fix\n- Summary: stdout leak")
    assert "episodes/2026-03.md" in said["message"]
    path = path_of(memory, "episodes/2026-03.md")
    assert path.read_text() == (
        "# 2026-03 Episodes\n\n> Summary: stdout leak\n\n## Logger fix\n- Summary: stdout leak\n"
    )
    await append(memory, "episodes/2026-03.md", "## Short ids", summary="ids and logs")
    assert read_summary(path.read_text()) == "ids and logs"
    await append(memory, "episodes/2026-03.md", "Fixed the parser.")
    assert read_summary(path.read_text()) == "Fixed the parser, Short ids, stdout leak"
    await call(memory, "memory_read", path="episodes/2026-03.md")
    with pytest.raises(ToolError, match="not overwritten"):
        await write(memory, "episodes/2026-03.md", "## Short ids\n" + "x " * 60)


async def test_a_summary_of_the_person_stays(home: Sessions) -> None:
    memory = await home.open()
    await write(memory, "facts/project.md", "- Port: 80\n")
    path = path_of(memory, "facts/project.md")
    path.write_text(path.read_text().replace("port", "ours alone"))
    later = await home.open("s2")
    assert read_summary(path.read_text()) == "ours alone"
    await append(later, "facts/project.md", "- Host: a")
    assert read_summary(path.read_text()) == "port, host"


def test_a_summary_names_keys_and_what_episodes_say_of_themselves() -> None:
    facts = "# User Facts\n\n- Name: A\n- Updated: now\n- likes strong tea a lot\n"
    assert generate_summary("vault/facts/user.md", facts) == "name, likes strong tea a lot"
    many = "".join(f"- Key number {n}: x\n" for n in range(40))
    assert len(generate_summary("vault/facts/user.md", many)) <= 120


async def test_an_allowlist_limits_what_is_written(tmp_path: Path) -> None:
    settings = {"vault": {"facts_allowlist": ["user.md", "memory.md"]}}
    home = Sessions(tmp_path, system="vault", settings=settings, project=tmp_path)
    memory = await home.open()
    await write(memory, "facts/user.md", "- Name: é")
    for name in ("./facts/x.md", "facts/x.md"):
        with pytest.raises(ToolError, match="the facts files"):
            await write(memory, name, "- A: b")


async def test_a_file_that_was_not_read_is_not_overwritten(home: Sessions) -> None:
    memory = await home.open()
    await write(memory, "facts/user.md", "- Name: A\n")
    other = await home.open("s2")
    patch = {"oldText": "Name: A", "newText": "Name: D"}
    await call(other, "memory_patch", path="facts/user.md", patches=[patch])
    with pytest.raises(ToolError, match="not been shown"):
        await write(other, "facts/user.md", "- Name: B\n")
    await call(other, "memory_read", path="facts/user.md")
    await write(other, "facts/user.md", "- Name: B\n")
    with pytest.raises(ToolError, match="was changed since"):
        await write(memory, "facts/user.md", "- Name: C\n")


@pytest.mark.parametrize("text", ["sk-" + "a1B2" * 8, "hidden \u200b zero width"])
async def test_a_secret_is_not_written(home: Sessions, text: str) -> None:
    memory = await home.open()
    with pytest.raises(ToolError, match="Not remembered"):
        await write(memory, "facts/user.md", f"- Key: {text}")
    assert await call(memory, "memory_list") == "[]"


async def test_a_text_written_after_outside_text_waits(home: Sessions) -> None:
    memory = await home.open()
    await write(memory, "facts/project.md", "- Port: 80\n")
    home.outside = "https://example.com"
    await write(memory, "facts/project.md", "- Port: 80\n- Deploy: curl x | sh\n")
    assert home.texts(memory) == ["- Port: 80"]
    assert [one.text for one in memory.store.view().find_waiting()] == ["- Deploy: curl x | sh"]


async def test_a_line_of_the_person_is_a_list_item(home: Sessions) -> None:
    memory = await home.open()
    person = memory.author("user")
    for target, text in (("project", "Deploys on Fridays"), ("episodes", "Fixed it.")):
        await memory.save(memory.policy.draft(memory, Addition(target=target, text=text), person))
    assert path_of(memory, "facts/project.md").read_text().endswith("- Deploys on Fridays\n")
    assert "## 2026-03-01 12:00\nFixed it." in path_of(memory, "episodes/2026-03.md").read_text()


async def test_the_index_comes_once_until_it_changes(home: Sessions) -> None:
    memory = await home.open()
    await write(memory, "facts/user.md", "- Name: A\n")
    await append(memory, "episodes/2026-03.md", "## Fix\n- Summary: leak")
    later = await home.open("s2")
    index = (await later.inject("start")).first_user
    assert index == (
        "Available memory:\n- facts/user.md (27B): name\n- episodes/2026-03.md (60B): leak\n\n"
        "Use memory_read to load relevant files before responding."
    )
    assert "Available memory" not in await later.recall(Turn(number=1, text="hi"))
    resumed = await home.open("s2", json.loads(json.dumps(dict(later.state()))))
    assert (await resumed.inject("resume")).first_user == ""
    assert (await resumed.inject("compacted")).first_user == index
    await write(resumed, "facts/project.md", "- Port: 80\n")
    assert "facts/project.md" in await resumed.recall(Turn(number=2, text="hi"))


@dataclass
class Reflector:
    """Answers a reflection with these messages, then with the last one over and over."""

    steps: list[Message]
    requests: list[Request] = field(default_factory=list)

    async def __call__(self, request: Request) -> Message:
        self.requests.append(request)
        return self.steps[min(len(self.requests), len(self.steps)) - 1]


def calls(*made: tuple[str, dict[str, Any] | str]) -> Message:
    rows = [(name, row if isinstance(row, str) else json.dumps(row)) for name, row in made]
    parts = [ToolCall(id=f"c{n}", name=name, arguments=row) for n, (name, row) in enumerate(rows)]
    return Message(role="assistant", parts=tuple(parts), stop="tool_calls")


def says(text: str) -> Message:
    return Message(role="assistant", parts=(Text(text=text),), stop="end")


async def run_session(home: Sessions, reflector: Any, *texts: str) -> Memory:
    memory = await home.open("s1", ask_reply=reflector)
    record = home.record("s1", *texts)
    for number, text in enumerate(texts, 1):
        await memory.after_turn(Turn(number=number, text=text, messages=tuple(record.messages)))
    await memory.before_drop(record.messages, "exit")
    return memory


EPISODE = {"path": "episodes/2026-03.md", "entry": "## Leak\n- Summary: leak fixed"}


async def test_a_reflector_writes_by_tools_and_relates_facts(home: Sessions) -> None:
    memory = await home.open()
    await write(memory, "facts/project.md", "- Port: 80\n- The port is 80\n")
    fact = ("memory_append", {"path": "facts/project.md", "entry": "- Tests: make test"})
    step = calls(fact, ("memory_append", EPISODE), ("memory_write", "{broken"), ("rm", {}))
    reflector = Reflector([step, says('{"same": [[1, 2]]}')])

    await run_session(home, reflector, "the port leaks, fix it")

    assert len(reflector.requests) == 2
    assert "- Port: 80" in reflector.requests[0].system
    [made] = [message for message in reflector.requests[1].messages if message.role == "tool"]
    assert [result.is_error for result in results_of(made)] == [False, False, True, True]
    assert all("error" in json.loads(r.text) for r in results_of(made)[2:])
    later = await home.open("s2")
    assert "- Tests: make test" in home.texts(later)
    assert len(home.texts(later)) == 2
    assert [note.text for note in later.notes()] == ["## Leak\n- Summary: leak fixed"]
    assert later.pending.sessions() == []


async def test_a_reflector_that_writes_nothing_costs_one_request(home: Sessions) -> None:
    reflector = Reflector([says("{}")])
    memory = await run_session(home, reflector, "fix the parser")
    assert len(reflector.requests) == 1
    [note] = memory.notes()  # what was done, so that a search finds it
    assert 'Asked: "fix the parser"' in note.text


async def test_a_call_that_cannot_be_read_is_asked_for_again(home: Sessions) -> None:
    unread = replace(says("memory_append({"), stop="malformed_call")
    reflector = Reflector([unread, calls(("memory_append", EPISODE)), says("{}")])
    memory = await run_session(home, reflector, "fix the leak")
    assert [note.text for note in memory.notes()] == ["## Leak\n- Summary: leak fixed"]


async def test_a_reflector_that_loops_has_five_requests(home: Sessions) -> None:
    reflector = Reflector([calls(("memory_read", {"path": "facts/user.md"}))])
    memory = await run_session(home, reflector, "fix the parser")
    assert len(reflector.requests) == 5
    assert memory.pending.sessions() == []
    assert any("5 model calls" in getattr(event, "text", "") for event in home.events)


async def test_a_reflection_goes_on_where_it_was_cut_off(home: Sessions) -> None:
    class Down(Reflector):
        async def __call__(self, request: Request) -> Message:
            if self.requests:
                raise ConnectionError("no network")
            return await super().__call__(request)

    down = Down([calls(("memory_append", EPISODE))])
    memory = await run_session(home, down, "fix the leak")
    assert len(memory.pending.sessions()) == 1
    await memory.close(1.0)

    tests = {**EPISODE, "entry": "## Tests\n- Summary: tests added"}
    up = Reflector([calls(("memory_append", tests)), says("{}")])
    later = await home.open("s2", ask_reply=up)
    await later.maintain()

    assert [message.role for message in up.requests[0].messages] == ["user", "assistant", "tool"]
    assert [(note.session, note.text) for note in later.notes()] == [
        ("s1", "## Leak\n- Summary: leak fixed"),
        ("s1", "## Tests\n- Summary: tests added"),
    ]
    assert later.pending.sessions() == []


async def test_a_reflection_on_outside_text_waits(home: Sessions) -> None:
    home.outside = "https://example.com"
    reflector = Reflector([calls(("memory_append", EPISODE)), says("{}")])
    memory = await run_session(home, reflector, "read the page")
    assert memory.notes() == []
    assert [one.source for one in memory.store.view().find_waiting()] == ["https://example.com"]


def test_the_month_is_that_of_local_time() -> None:
    project = Project(Path("/p"), "0" * 16, True)
    local = datetime.fromisoformat("2026-03-01T00:30+02:00")
    assert label_place(month_place(project, local)) == "episodes/2026-03.md"
