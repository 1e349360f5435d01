"""What a command in the sandbox may change for real, and whether it may run again outside."""

from dataclasses import replace

import pytest

from kode.permissions.question import Answer
from kode.tool import Blocked, FileChange
from tests.permissions.gates import NO, ONCE, SCRIPT, SESSION, Person


def changes(gates, *names, ignored="", change="changed", **fields):
    ignored = f"{gates.project}/{ignored}" if ignored else ""
    return [
        FileChange(path=str(gates.project / name), change=change, ignored=ignored, **fields)
        for name in names
    ]


async def decide(gates, gate, made, may_ask=True):
    """The names of what is kept, and the flag that would keep each of the rest."""
    decided = await gate.judge_changes(SCRIPT, made, "the diff", may_ask=may_ask)
    kept, refused = [], {}
    for change, decision in decided:
        name = change.path.removeprefix(f"{gates.project}/")
        if decision.is_allowed:
            kept.append(name)
        elif change.is_reported:
            refused[name] = decision.consent.flag
    return kept, refused


CREATED = {"change": "created"}
GONE = {"change": "deleted", "ignored": ".venv/", "kind": "dependency"}
VENV = {"change": "created", "ignored": ".venv/", "kind": "dependency"}
NODE = {"change": "created", "ignored": "p/node_modules/", "kind": "dependency", "files": 1204}
BUILD = {"change": "created", "ignored": "build/"}
EMPTY = {"change": "created", "files": 0}
FOLDERS = (".git", ".git/HEAD", ".git/objects", ".git/objects/a", "src", "src/a.py")
INSTALLED = [(("p/node_modules",), NODE), ((".venv/bin/pip", ".venv/x.py"), VENV)]
BUILT = [(("build/app", "build/x.o"), BUILD), (("app.db",), {"ignored": "app.db"})]
BUILT_NAMES = ["app.db", "build/app", "build/x.o"]
IN_VENV = [".venv/bin/pip", ".venv/x.py"]
LINKED = [".cargo", ".github", "a/.yarn", "gradle", ".config", "src/.hg"]


def made_by(gates, made):
    return [change for names, fields in made for change in changes(gates, *names, **fields)]


@pytest.mark.parametrize(
    ("mode", "rules", "made", "kept"),
    [
        ("plan", {}, [(("a.py",), {})], []),
        ("auto-edit", {}, [(("a.py", ".envrc", ".git/hooks/x", "AGENTS.md"), {})], ["a.py"]),
        *((mode, {"deny": ["edit(b/**)"]}, [(("b/a",), {})], []) for mode in ("ask", "full")),
        # What git ignores is work, but packages and caches.
        ("auto-edit", {}, BUILT, BUILT_NAMES),
        ("ask", {}, BUILT, []),
        ("plan", {}, BUILT, []),
        ("auto-edit", {}, [(("build/.envrc",), BUILD)], []),
        ("auto-edit", {"allow": ["edit(./.venv/**)"]}, INSTALLED, IN_VENV),
        ("auto-edit", {"allow": ["edit(./**)"]}, INSTALLED, [*IN_VENV, "p/node_modules"]),
        ("auto-edit", {"allow": ["edit"]}, INSTALLED, [*IN_VENV, "p/node_modules"]),
        ("full", {"deny": ["edit(./p/node_modules/**)"]}, INSTALLED, IN_VENV[1:]),
        ("auto-edit", {}, [((".venv/a",), GONE)], [".venv/a"]),
        ("auto-edit", {}, [((".venv/a",), GONE), (("venv/a",), VENV)], []),  # they move
        *(
            (mode, {"allow": ["edit"]}, [(("c/a.pyc",), {"kind": "cache", "change": change})], [])
            for mode in ("ask", "auto-edit", "full")
            for change in ("created", "changed", "deleted")
        ),
        # Folders: an empty one is nobody's work, and one that has to stay, stays.
        ("auto-edit", {}, [(("docs", ".git/hooks"), EMPTY)], ["docs"]),
        ("ask", {}, [(("docs", ".git/hooks"), EMPTY)], []),
        ("auto-edit", {}, [(FOLDERS, {"change": "deleted"})], ["src", "src/a.py"]),
        # A link in the place of a folder that programs obey may bring anything.
        ("auto-edit", {}, [((name,), CREATED) for name in LINKED], sorted(LINKED)),
        ("auto-edit", {}, [((*LINKED, "docs"), CREATED | {"is_link": True})], ["docs"]),
    ],
)
async def test_mode_and_rules_decide_where_nobody_is_asked(gates, mode, rules, made, kept):
    gate = gates.gate(None, mode=mode, **rules)
    assert (await decide(gates, gate, made_by(gates, made)))[0] == kept


async def test_no_change_in_the_folder_of_kode_counts(gates):
    for mode in ("plan", "ask", "auto-edit", "full"):
        own = FileChange(path=str(gates.home / "config.json"), change="changed")
        assert (await decide(gates, gates.gate(Person(), mode=mode), [own]))[0] == []


@pytest.mark.parametrize("may_ask", [True, False])
@pytest.mark.parametrize(
    ("mode", "made", "flags"),
    [
        ("ask", BUILT, "--permission-mode auto-edit"),
        ("ask", INSTALLED, "--allow 'edit(./.venv/**)' --allow 'edit(./p/node_modules/**)'"),
        ("auto-edit", INSTALLED, "--allow 'edit(./.venv/**)' --allow 'edit(./p/node_modules/**)'"),
    ],
)
async def test_a_refusal_names_the_flag_when_nobody_answers(gates, mode, made, flags, may_ask):
    gate = gates.gate(None if may_ask else Person(), mode=mode)
    kept, refused = await decide(gates, gate, made_by(gates, made), may_ask=may_ask)
    assert (kept, set(refused.values())) == ([], {flags})


@pytest.mark.parametrize(
    ("mode", "made", "lines", "silent", "rules"),
    [
        ("ask", [(("src/a.py", "src/b.py"), {})], "changed src/a.py", "", {"edit(./src/**)"}),
        ("ask", BUILT, "changed app.db\ncreated build (2 files)", "build/app", None),
        ("ask", BUILT[:1], "created build (2 files)", "", {"edit(./build/**)"}),
        (
            "auto-edit",
            INSTALLED,
            "p/node_modules (1,204 files)",
            "pip",
            {"edit(./.venv/**)", "edit(./p/node_modules/**)"},
        ),
        ("auto-edit", [(("a.py", ".envrc", "AGENTS.md"), {})], "AGENTS.md", "a.py", None),
        ("auto-edit", [(FOLDERS[:4], {"change": "deleted"})], "deleted .git\n", ".git/HEAD", None),
    ],
)
async def test_one_question_shows_what_needs_one(gates, mode, made, lines, silent, rules):
    person = Person(ONCE)
    every = made_by(gates, made)
    kept, _ = await decide(gates, gates.gate(person, mode=mode), every)

    assert kept == sorted(change.path.removeprefix(f"{gates.project}/") for change in every)
    (question,) = person.questions
    assert lines in question.preview
    assert "the diff" in question.preview
    assert not silent or silent not in question.preview
    assert ("/undo" in question.reason) is (mode == "ask")
    assert rules is None or set(question.rules) == rules


async def test_a_no_drops_changes_and_is_no_lasting_answer(gates):
    no = Answer(choice="no", message="use tabs")
    gate = gates.gate(Person(no, NO, ONCE), mode="ask")

    decided = await gate.judge_changes(SCRIPT, changes(gates, "a.py"), "", may_ask=True)
    assert [decision.is_allowed for _, decision in decided] == [False]
    assert "use tabs" in decided[0][1].refusal.for_model
    assert (await decide(gates, gate, made_by(gates, INSTALLED)))[0] == []
    assert len((await decide(gates, gate, made_by(gates, INSTALLED)))[0]) == 3


@pytest.mark.parametrize(
    ("first", "later", "is_covered"),
    [
        ([(("src/a.py",), {})], [(("src/b.py",), {})], True),
        (BUILT[:1], [(("build/a/b/c.o",), BUILD)], True),
        (INSTALLED, INSTALLED, True),
        ([(("src/a.py",), {})], [(("src/venv/x",), VENV | {"ignored": "src/venv/"})], False),
    ],
)
async def test_a_lasting_answer_holds_for_its_folder(gates, first, later, is_covered):
    gate = gates.gate(Person(SESSION, NO))

    await decide(gates, gate, made_by(gates, first))
    kept, _ = await decide(gates, gate, made_by(gates, later))

    assert bool(kept) is is_covered


@pytest.mark.parametrize("change", ["deleted", "changed"])
async def test_a_link_is_judged_by_its_place_not_its_target(gates, change):
    (gates.project / "bin").mkdir()
    (gates.project / "bin/python").symlink_to("/usr/bin/python3")
    made = changes(gates, "bin/python", change=change)
    person = Person(ONCE)

    assert (await decide(gates, gates.gate(mode="auto-edit"), made))[0] == ["bin/python"]
    await decide(gates, gates.gate(person), made)
    assert "edit(./bin/**)" in person.questions[0].rules


async def test_a_command_that_was_blocked_is_asked_about_outside_plan(gates):
    command, person = replace(SCRIPT, arguments={"command": "pytest"}), Person(ONCE)
    decision = await gates.gate(person).judge_outside(command, [Blocked("lookup")])

    assert (decision.is_allowed, decision.run_in) == (True, "host")
    assert Blocked("lookup").words in person.questions[0].reason
    assert "without the sandbox" in person.questions[0].title
    assert decision.untrusted

    blocked = [Blocked("write", "/etc/x")]
    in_plan = await gates.gate(Person(), mode="plan").judge_outside(command, blocked)
    alone = await gates.gate(None).judge_outside(command, blocked)
    assert (in_plan.is_allowed, alone.is_allowed, alone.untrusted) == (False, False, "")
    assert "--allow 'shell(pytest:*)'" in alone.refusal.for_model
