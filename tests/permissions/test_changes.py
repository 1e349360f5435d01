"""What a command in the sandbox may change for real, and whether it may run again outside."""

from dataclasses import replace

import pytest

from kode.contracts import FileChange
from kode.permissions.gate import Answer
from tests.permissions.test_gate import TOOLS, Person, room  # noqa: F401

SHELL = TOOLS["shell"]


def changes(room, *names, change="changed", ignored=False):  # noqa: F811
    paths = [str(room.project / name) for name in names]
    return [FileChange(path=path, change=change, ignored=ignored) for path in paths]


async def kept(room, gate, made, may_ask=True):  # noqa: F811
    arguments = {"command": "./x.sh"}
    found = await gate.check_changes(SHELL, arguments, made, "the diff", may_ask=may_ask)
    return [one.path.removeprefix(f"{room.project}/") for one in found.changes], found.reason


async def test_in_ask_one_question_shows_all_that_changed(room):  # noqa: F811
    person = Person(Answer(choice="once"))

    names, _ = await kept(room, room.gate(person), changes(room, "a.py", "src/b.py"))

    assert names == ["a.py", "src/b.py"]
    (question,) = person.questions
    assert "changed a.py" in question.preview
    assert "the diff" in question.preview


async def test_a_no_drops_changes_and_tells_the_model_why(room):  # noqa: F811
    person = Person(Answer(choice="no", message="use tabs"))

    names, reason = await kept(room, room.gate(person), changes(room, "a.py"))

    assert names == []
    assert "use tabs" in reason


async def test_ignored_files_need_no_question_and_stay_sandboxed(room):  # noqa: F811
    person = Person()

    names, _ = await kept(room, room.gate(person), changes(room, "build/o", ignored=True))

    assert (names, person.questions) == ([], [])


async def test_a_folder_that_has_to_stay_keeps_its_contents(room):  # noqa: F811
    names = (".git", ".git/HEAD", ".git/objects", ".git/objects/a", "src", "src/a.py")
    made = changes(room, *names, change="deleted")

    kept_names, _ = await kept(room, room.gate(mode="auto-edit"), made)

    assert kept_names == ["src", "src/a.py"]


async def test_a_question_about_a_deleted_folder_lists_no_contents(room):  # noqa: F811
    person = Person(Answer(choice="once"))
    made = changes(room, ".git", ".git/hooks", ".git/hooks/pre-commit", change="deleted")

    names, _ = await kept(room, room.gate(person, mode="auto-edit"), made)

    assert names == [".git", ".git/hooks", ".git/hooks/pre-commit"]
    assert "deleted .git\n" in person.questions[0].preview
    assert ".git/hooks" not in person.questions[0].preview


async def test_mode_auto_edit_applies_what_an_edit_may_change(room):  # noqa: F811
    person = Person(Answer(choice="no"))
    made = [
        *changes(room, "a.py", ".envrc", ".git/hooks/pre-commit", "AGENTS.md"),
        *changes(room, "build/o", ignored=True),
    ]

    names, _ = await kept(room, room.gate(person, mode="auto-edit"), made)

    assert names == ["a.py", "build/o"]
    assert ".envrc" in person.questions[0].preview
    assert "AGENTS.md" in person.questions[0].preview
    assert "a.py" not in person.questions[0].preview


@pytest.mark.parametrize("mode", ["plan", "ask", "auto-edit", "full"])
async def test_changes_of_kodes_files_or_denied_ones_are_dropped(room, mode):  # noqa: F811
    person = Person()
    gate = room.gate(person, mode=mode, deny=["edit(secrets/**)"])
    own = [FileChange(path=str(room.home / "config.json"), change="changed")]

    names, _ = await kept(room, gate, [*own, *changes(room, "secrets/a")])

    assert names == []


async def test_in_plan_nothing_becomes_real(room):  # noqa: F811
    names, reason = await kept(room, room.gate(mode="plan"), changes(room, "a.py"))

    assert names == []
    assert "plan" in reason


@pytest.mark.parametrize("may_ask", [True, False])
async def test_changes_are_dropped_with_the_flag_when_nobody_answers(room, may_ask):  # noqa: F811
    gate = room.gate(None) if may_ask else room.gate(Person())

    names, reason = await kept(room, gate, changes(room, "a.py"), may_ask=may_ask)

    assert names == []
    assert "--permission-mode auto-edit" in reason


async def test_an_answer_for_the_session_holds_for_its_folder(room):  # noqa: F811
    person = Person(Answer(choice="session"))
    gate = room.gate(person)

    await kept(room, gate, changes(room, "src/a.py"))
    names, _ = await kept(room, gate, changes(room, "src/b.py"))

    assert names == ["src/b.py"]


async def outside(room, gate, *hits):  # noqa: F811
    return await gate.check_outside(SHELL, {"command": "pytest"}, hits)


async def test_a_command_at_the_wall_is_asked_about_once(room):  # noqa: F811
    person = Person(Answer(choice="once"))

    verdict = await outside(room, room.gate(person), "looked up a name on the network")

    assert (verdict.allowed, verdict.sandboxed) == (True, False)
    assert "looked up a name on the network" in person.questions[0].reason
    assert person.questions[0].title == "Run it again without the sandbox"
    assert verdict.untrusted


async def test_it_stays_inside_in_plan_and_when_nobody_is_there(room):  # noqa: F811
    in_plan = await outside(room, room.gate(Person(), mode="plan"), "wrote to /etc/x")
    alone = await outside(room, room.gate(None), "wrote to /etc/x")

    assert not in_plan.allowed
    assert not alone.allowed
    assert "--allow 'shell(pytest:*)'" in alone.reason


@pytest.mark.parametrize("name", [".cargo", ".github", "a/.yarn", "gradle", ".config", "src/.hg"])
async def test_a_link_replacing_a_folder_programs_obey_is_asked_about(
    room,  # noqa: F811
    name,
):
    (link,) = changes(room, name, change="created")
    gate = room.gate(mode="auto-edit")
    assert (await kept(room, gate, [link]))[0] == [name]  # a folder: what is in it is judged
    assert (await kept(room, gate, [replace(link, is_link=True)]))[0] == []
    (other,) = changes(room, "docs", change="created")
    assert (await kept(room, gate, [replace(other, is_link=True)]))[0] == ["docs"]
