"""What a command in the sandbox may change for real, and whether it may run again outside."""

from dataclasses import replace

import pytest

from kode.permissions.question import Answer
from kode.tool import Action, Blocked, FileChange
from tests.permissions.test_gate import TOOLS, Person, room  # noqa: F401

SCRIPT = Action(call_id="1", tool=TOOLS["shell"], arguments={"command": "./x.sh"})


def changes(room, *names, ignored="", change="changed", **fields):  # noqa: F811
    ignored = f"{room.project}/{ignored}" if ignored else ""
    return [
        FileChange(path=str(room.project / name), change=change, ignored=ignored, **fields)
        for name in names
    ]


async def kept(room, gate, made, may_ask=True):  # noqa: F811
    decided = await gate.judge_changes(SCRIPT, made, "the diff", may_ask=may_ask)
    applied = [change for change, decision in decided if decision.is_allowed]
    names = [change.path.removeprefix(f"{room.project}/") for change in applied]
    refused = {decision.refusal.for_model: None for _, decision in decided}
    return names, " ".join(refused)


async def test_one_question_of_mode_ask_shows_every_change(room):  # noqa: F811
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


@pytest.mark.parametrize("change", ["deleted", "changed"])
async def test_a_link_is_judged_by_its_place_not_its_target(room, change):  # noqa: F811
    (room.project / "bin").mkdir()
    (room.project / "bin/python").symlink_to("/usr/bin/python3")
    made = changes(room, "bin/python", change=change)

    names, _ = await kept(room, room.gate(mode="auto-edit"), made)
    assert names == ["bin/python"]

    person = Person(Answer(choice="once"))
    await kept(room, room.gate(person), made)
    assert "edit(./bin/**)" in person.questions[0].rules


async def decide(room, gate, *made, may_ask=True):  # noqa: F811
    """What is kept, and the flag that would keep each of the rest."""
    decided = await gate.judge_changes(SCRIPT, made, "", may_ask=may_ask)
    applied, refused = [], {}
    for change, decision in decided:
        name = change.path.removeprefix(f"{room.project}/")
        if decision.is_allowed:
            applied.append(name)
        elif change.is_reported:
            refused[name] = decision.consent.flag
    return applied, refused


def installed(room):  # noqa: F811
    kind = {"kind": "dependency", "change": "created"}
    return [
        *changes(room, "p/node_modules", ignored="p/node_modules/", files=1204, **kind),
        *changes(room, ".venv/bin/pip", ".venv/x.py", ignored=".venv/", **kind),
    ]


def built(room):  # noqa: F811
    return [
        *changes(room, "build/app", "build/x.o", ignored="build/", change="created"),
        *changes(room, "app.db", ignored="app.db"),
    ]


async def test_ignored_work_is_decided_like_any_edit(room):  # noqa: F811
    made = built(room)
    names = ["app.db", "build/app", "build/x.o"]
    person = Person(Answer(choice="once"))

    assert (await decide(room, room.gate(None, mode="auto-edit"), *made)) == (names, {})
    assert (await decide(room, room.gate(person), *made)) == (names, {})
    assert "changed app.db\ncreated build (2 files)" in person.questions[0].preview
    assert (await decide(room, room.gate(None), *made)) == (
        [],
        dict.fromkeys(names, "--permission-mode auto-edit"),
    )
    assert (await decide(room, room.gate(None, mode="plan"), *made))[0] == []


GONE = {"change": "deleted", "ignored": ".venv/", "kind": "dependency"}
NEW = {"change": "created", "ignored": "venv/", "kind": "dependency"}
EMPTY = {"change": "created", "files": 0}
FOLDERS = (".git", ".git/HEAD", ".git/objects", ".git/objects/a", "src", "src/a.py")


@pytest.mark.parametrize(
    ("mode", "made", "applied"),
    [
        ("auto-edit", [(("build/.envrc",), {"ignored": "build/", "change": "created"})], []),
        ("auto-edit", [((".venv/a",), GONE)], [".venv/a"]),
        ("auto-edit", [((".venv/a",), GONE), (("venv/a",), NEW)], []),  # they move
        ("auto-edit", [(("docs", ".git/hooks"), EMPTY)], ["docs"]),
        ("ask", [(("docs", ".git/hooks"), EMPTY)], []),
        ("auto-edit", [(FOLDERS, {"change": "deleted"})], ["src", "src/a.py"]),
        ("plan", [(("a.py",), {})], []),
    ],
)
async def test_mode_decides_where_nobody_is_asked(room, mode, made, applied):  # noqa: F811
    every = [one for names, fields in made for one in changes(room, *names, **fields)]
    assert (await decide(room, room.gate(None, mode=mode), *every))[0] == applied


async def test_an_answer_about_an_ignored_folder_covers_it(room):  # noqa: F811
    person = Person(Answer(choice="session"))
    gate = room.gate(person)
    deep = changes(room, "build/a/b/c.o", ignored="build/", change="created")

    await decide(room, gate, *built(room)[:2])
    assert (await decide(room, gate, *deep))[0] == ["build/a/b/c.o"]
    assert person.questions[0].rules == ("edit(./build/**)",)


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
async def test_packages_are_asked_about_by_name(room, mode):  # noqa: F811
    person = Person(Answer(choice="session"))
    gate = room.gate(person, mode=mode)

    names, _ = await decide(room, gate, *installed(room))
    again, _ = await decide(room, gate, *installed(room))

    assert names == again == [".venv/bin/pip", ".venv/x.py", "p/node_modules"]
    (question,) = person.questions
    assert "p/node_modules (1,204 files)" in question.preview
    assert set(question.rules) == {"edit(./.venv/**)", "edit(./p/node_modules/**)"}


@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
@pytest.mark.parametrize("may_ask", [True, False])
async def test_packages_are_refused_with_flags_when_nobody_answers(
    room,  # noqa: F811
    mode,
    may_ask,
):
    gate = room.gate(Person() if not may_ask else None, mode=mode)

    names, refused = await decide(room, gate, *installed(room), may_ask=may_ask)

    flags = "--allow 'edit(./.venv/**)' --allow 'edit(./p/node_modules/**)'"
    assert (names, set(refused.values())) == ([], {flags})


async def test_a_no_about_packages_is_asked_again_later(room):  # noqa: F811
    person = Person(Answer(choice="no"), Answer(choice="once"))
    gate = room.gate(person, mode="auto-edit")

    assert (await decide(room, gate, *installed(room)))[0] == []
    assert len((await decide(room, gate, *installed(room)))[0]) == 3


@pytest.mark.parametrize("change", ["created", "changed", "deleted"])
@pytest.mark.parametrize("mode", ["ask", "auto-edit", "full"])
async def test_caches_stay_in_the_sandbox_without_a_word(room, mode, change):  # noqa: F811
    gate = room.gate(Person(), mode=mode, allow=["edit"])
    made = changes(room, "__pycache__/a.pyc", ignored="__pycache__/", kind="cache", change=change)

    assert await decide(room, gate, *made) == ([], {})


async def test_no_answer_about_other_files_covers_packages(room):  # noqa: F811
    person = Person(Answer(choice="session"), Answer(choice="no"))
    gate = room.gate(person)
    inside = changes(room, "src/venv/x", ignored="src/venv/", kind="dependency")

    await kept(room, gate, changes(room, "src/a.py"))
    names, refused = await decide(room, gate, *inside)

    assert (names, [*refused]) == ([], ["src/venv/x"])


@pytest.mark.parametrize("rule", ["edit(./.venv/**)", "edit(./**)", "edit"])
async def test_a_rule_of_the_person_keeps_packages(room, rule):  # noqa: F811
    node, *venv = installed(room)
    names, _ = await decide(room, room.gate(None, allow=[rule], mode="auto-edit"), node, *venv)
    in_venv = [".venv/bin/pip", ".venv/x.py"]
    assert names == in_venv if "venv" in rule else [*in_venv, "p/node_modules"]


async def test_a_deny_rule_inside_a_new_folder_is_obeyed(room):  # noqa: F811
    made, *_ = installed(room)
    gate = room.gate(Person(), mode="auto-edit", deny=["edit(./p/node_modules/**)"])
    assert (await decide(room, gate, made))[0] == []


async def test_a_question_about_a_deleted_folder_lists_no_contents(room):  # noqa: F811
    person = Person(Answer(choice="once"))
    made = changes(room, ".git", ".git/hooks", ".git/hooks/pre-commit", change="deleted")

    names, _ = await kept(room, room.gate(person, mode="auto-edit"), made)

    assert names == [".git", ".git/hooks", ".git/hooks/pre-commit"]
    assert "deleted .git\n" in person.questions[0].preview
    assert ".git/hooks" not in person.questions[0].preview


async def test_mode_auto_edit_applies_what_an_edit_may_change(room):  # noqa: F811
    person = Person(Answer(choice="no"))
    made = changes(room, "a.py", ".envrc", ".git/hooks/pre-commit", "AGENTS.md")

    names, _ = await kept(room, room.gate(person, mode="auto-edit"), made)

    assert names == ["a.py"]
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


WRITE = Blocked("write", "/etc/x")


async def outside(room, gate, *hits):  # noqa: F811
    return await gate.judge_outside(replace(SCRIPT, arguments={"command": "pytest"}), hits)


async def test_a_command_at_the_wall_is_asked_about_once(room):  # noqa: F811
    person = Person(Answer(choice="once"))

    decision = await outside(room, room.gate(person), Blocked("lookup"))

    assert (decision.is_allowed, decision.run_in) == (True, "host")
    assert Blocked("lookup").words in person.questions[0].reason
    assert person.questions[0].title == "Run it again without the sandbox"
    assert decision.untrusted


async def test_it_stays_inside_in_plan_and_when_nobody_is_there(room):  # noqa: F811
    in_plan = await outside(room, room.gate(Person(), mode="plan"), WRITE)
    alone = await outside(room, room.gate(None), WRITE)

    assert not in_plan.is_allowed
    assert not alone.is_allowed
    assert "--allow 'shell(pytest:*)'" in alone.refusal.for_model


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
