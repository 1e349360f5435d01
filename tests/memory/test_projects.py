"""Vault and journal belong to the project they are used in."""

import pytest

from kode.config import MemoryConfig
from kode.errors import MemoryRefused
from kode.memory import make_system
from kode.memory.commands import memory_command
from kode.paths import path_hash
from tests.memory.life import memory_context, turn, use_tool
from tests.unsealed import unsealed

NAMES = ("vault", "journal")
OLD = {
    "vault": {
        "facts/project.md": "- Stack: Rust\n",
        "episodes/2026-02.md": "## Fixed the parser\n- x\n",
        "pending/s.0001.json": "{}",
    },
    "journal": {
        "MEMORY.md": "- Stack: Rust\n",
        "HISTORY.md": "## 2026-02-01T10:00:00.000Z\n\nFixed the parser.\n\n",
        "queue/done/s.1.json": "[]",
    },
}


async def opened(root, name, project, **changes):
    system = make_system(MemoryConfig(system=name))
    folder = root / project
    folder.mkdir(exist_ok=True)
    await system.open(memory_context(root, cwd=folder, **changes), {})
    return system


def put_old(root, name):
    for file, text in OLD[name].items():
        path = root / "memory" / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize(("name", "target"), [("vault", "project"), ("journal", "memory")])
async def test_an_entry_of_one_project_is_not_seen_in_another(tmp_path, name, target):
    first = await opened(tmp_path, name, "first")
    await memory_command(first, ["add", target, "builds with bazel"])

    again = await opened(tmp_path, name, "first")
    other = await opened(tmp_path, name, "other")

    assert [hit.text for hit in await again.search("bazel", 3)] == ["- builds with bazel"]
    assert await other.search("bazel", 3) == []
    assert (await other.inject("start")).first_user == (await other.inject("start")).system == ""


async def test_a_vaults_facts_about_the_person_span_projects(tmp_path):
    first = await opened(tmp_path, "vault", "first")
    await memory_command(first, ["add", "user", "name is Zhang"])
    await memory_command(first, ["add", "preferences", "likes tabs"])

    other = await opened(tmp_path, "vault", "other")

    assert other.files.names() == ["facts/preferences.md", "facts/user.md"]
    shared = files_of(tmp_path / "memory" / "vault")
    assert set(shared) == {"facts/preferences.md", "facts/user.md"}


class Killed(BaseException):
    """Ends the process, as far as the code that it is raised in can tell."""


@pytest.mark.parametrize(("name", "target"), [("vault", "project"), ("journal", "memory")])
async def test_undo_without_an_id_means_this_projects_last_change(tmp_path, name, target):
    first = await opened(tmp_path, name, "first")
    other = await opened(tmp_path, name, "other")
    await memory_command(first, ["add", target, "builds with bazel"])
    await memory_command(other, ["add", target, "builds with make"])

    await memory_command(first, ["undo"])

    assert await first.search("bazel", 3) == []
    assert len(await other.search("make", 3)) == 1
    with pytest.raises(MemoryRefused, match="nothing to undo"):
        await memory_command(first, ["undo"])


async def test_a_change_older_than_projects_is_undone_in_place(tmp_path):
    system = await opened(tmp_path, "vault", "first")
    (tool,) = [tool for tool in system.tools() if tool.name == "memory_write"]
    await use_tool(tool, path="facts/tools.md", content="- Build: make")
    (change,) = system.history.tail(1).changes
    path = system.history.path
    text = path.read_text().replace(f"vault/{path_hash(tmp_path / 'first')}/", "vault/")
    path.write_text(unsealed(text))

    await memory_command(system, ["undo", change.id])

    assert system.files.names() == []


@pytest.mark.parametrize("name", NAMES)
async def test_an_export_holds_all_projects_and_an_import_restores_each(tmp_path, name):
    targets = {"vault": "project", "journal": "memory"}
    for project in ("first", "other"):
        system = await opened(tmp_path, name, project)
        await memory_command(system, ["add", targets[name], f"this is the {project} one"])
    text = await memory_command(system, ["export"])
    file = tmp_path / "out.jsonl"
    file.write_text(text)

    new = make_system(MemoryConfig(system=name))
    await new.open(memory_context(tmp_path / "elsewhere", cwd=tmp_path / "first"), {})
    await memory_command(new, ["import", str(file)])

    back = await memory_command(new, ["export"])
    assert sorted(back.split("\n")) == sorted(text.split("\n"))
    assert [hit.text for hit in await new.search("first", 3)] == ["- this is the first one"]


# ── the index of the vault ───────────────────────────────────────────────────────────────────


async def test_the_index_is_given_again_only_when_it_changed(tmp_path):
    system = await opened(tmp_path, "vault", "first")
    await memory_command(system, ["add", "user", "name is Zhang"])
    first = (await system.inject("start")).first_user
    short = await system.recall(turn(1, "hello"))
    unchanged = await system.recall(turn(1, "hello"))
    (system.files.path("facts/project.md")).parent.mkdir(parents=True)
    (system.files.path("facts/project.md")).write_text("> Summary: the stack\n- Stack: Rust\n")
    changed = await system.recall(turn(2, "and now?"))

    again = make_system(MemoryConfig(system="vault"))
    await again.open(memory_context(tmp_path, cwd=tmp_path / "first"), system.state())
    resumed = (await again.inject("resume")).first_user, await again.recall(turn(3, "go on"))

    assert "facts/user.md" in first
    assert "name is Zhang" in short
    assert unchanged == ""
    assert "facts/project.md" in changed
    assert "the stack" in changed
    assert resumed == ("", "")
