"""A person's answers, how far each holds, and what a question shows."""

import asyncio
import os
from dataclasses import replace

import pytest

from kode import paths
from kode.errors import ConfigError, ToolError
from kode.permissions.question import Answer, visible
from kode.tool import Decision
from kode.tools.apply_patch import Hunk, patch_file
from tests.permissions.gates import NO, ONCE, PROJECT, SESSION, TOOLS, Person
from tests.tables import for_each

WRITE = TOOLS["write_file"]


@pytest.mark.parametrize(
    ("answers", "commands", "refused"),
    [
        ((), ("ls | head",), ()),
        ((ONCE, NO), ("mkdir a", "mkdir a"), (1,)),
        ((SESSION,), ("pytest -q", "pytest -x tests"), ()),
        ((replace(SESSION, narrow=True), NO), ("pytest -q", "pytest -q", "pytest -x"), (2,)),
        ((PROJECT,), ("npm ci && git commit -m x && ls | wc -l", "npm ci", "git commit -m y"), ()),
        ((replace(ONCE, mode="full"),), ("pytest -q", "mkdir a"), ()),
    ],
)
async def test_an_answer_holds_as_far_as_it_says(gates, answers, commands, refused):
    person = Person(*answers)
    gate = gates.gate(person)

    decisions = [await gates.check(gate, command) for command in commands]

    assert [at for at, one in enumerate(decisions) if not one.is_allowed] == [*refused]
    assert person.answers == []


@for_each(
    ("settings", "could"),
    [
        ({}, False),
        ({"mode": "full"}, True),
        ({"ask": Person()}, True),
        ({"allow": ["fetch(x.example)"]}, True),
        ({"allow": ["delegate", "edit"]}, False),
    ],
)
def test_a_tool_needing_a_yes_runs_where_one_may_come(gates, settings, could):
    assert gates.gate(**settings).could_run(TOOLS["fetch_url"]) is could


async def test_an_answer_that_cannot_be_stored_counts_for_the_session(gates):
    notices = []

    async def damage(question):
        path = paths.permissions_file(gates.home, gates.project)
        path.parent.mkdir(parents=True)
        path.write_text("x")
        return PROJECT

    assert (await gates.check(gates.gate(damage, emit=notices.append), "npm test")).is_allowed
    assert "this session only" in notices[0].text


async def test_a_yes_keeps_the_name_of_outside_text(gates):
    decision = await gates.check(gates.gate(Person(ONCE)), "cat /var/tmp/F")

    assert (decision.is_allowed, decision.untrusted) == (True, "/var/tmp/F")


async def test_full_runs_unasked_without_a_person_and_asks_with_one(gates):
    person = Person(NO)

    alone = gates.gate(mode="full")
    assert (await gates.check(alone, "git reset --hard")).is_allowed
    assert not (await gates.check(alone, "cat .env")).is_allowed
    assert not (await gates.check(gates.gate(person, mode="full"), "git reset --hard")).is_allowed
    assert person.questions[0].rules == ()


async def test_one_lasting_answer_settles_the_questions_that_wait(gates):
    person = Person(SESSION, NO)
    gate = gates.gate(person)

    decisions = await asyncio.gather(
        gates.check(gate, "pytest -q"), gates.check(gate, "pytest -x"), gates.check(gate, "mkdir a")
    )

    assert [decision.is_allowed for decision in decisions] == [True, True, False]
    assert person.most_at_once == 1
    assert len(person.questions) == 2


async def test_a_question_shows_the_whole_change_and_offers_its_rule(gates):
    person = Person(NO, NO)
    for path in ("b/a.txt", "c.txt"):
        await gates.judge(gates.gate(person), WRITE, {"path": path, "content": "new\n"})

    question, _ = person.questions
    assert "a.txt" in question.subject
    assert "new" in question.preview
    assert question.diff == question.preview
    assert [one.rules for one in person.questions] == [("edit(./b/**)",), ("edit(./c.txt)",)]


async def test_a_call_that_cannot_succeed_is_not_asked_about(gates):
    person = Person()
    edit = {"path": "missing.txt", "old_text": "a", "new_text": "b"}
    checked = TOOLS["edit_file"].check(edit)

    with pytest.raises(ToolError):
        await gates.judge(gates.gate(person), TOOLS["edit_file"], checked)

    assert person.questions == []


async def test_a_question_shows_characters_that_hide(gates):
    person = Person(NO)
    await gates.check(gates.gate(person), "echo ok \x1b[2K\u202e; rm -rf src")
    assert "echo ok \\x1b[2K\\u202e; rm -rf src" in person.questions[0].preview


@for_each(
    ("text", "shown"),
    [
        ("plain äöü 漢字 🙂", "plain äöü 漢字 🙂"),
        ("a\nb\tc", "a\nb\tc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202ertl", "\\u202ertl"),
        ("a\u200bb", "a\\u200bb"),
        ("\r", "\\r"),
        ("\ud800", "\\ud800"),
        ("\u3164", "\\u3164"),
        ("\t\t\t\trm", "\\t\\t\\t\\trm"),
        ("ls" + " " * 100 + ";rm", "ls [100 spaces] ;rm"),
        ("ls" + "\n" * 41 + "rm", "ls\n[40 empty lines]\nrm"),
        ("ls" + "\n \t" * 40 + "\nrm", "ls\n[40 empty lines]\nrm"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("a\U000e0101b\ufe01", "a\\U000e0101b\\ufe01"),
    ],
)
def test_visible_spells_out_what_does_not_show(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize("choice", ["session", "project"])
async def test_a_removed_answer_is_asked_again_until_restored(gates, choice):
    gate = gates.gate(Person(Answer(choice=choice), NO), allow=["shell(ls:*)"], deny=["fetch"])
    assert (await gates.check(gate, "pytest -q")).is_allowed
    *_, given = rules = gate.standing_rules()
    assert [(rule.effect, str(rule.rule), rule.source) for rule in rules] == [
        ("deny", "fetch", "settings"),
        ("allow", "shell(ls:*)", "settings"),
        ("allow", "shell(pytest:*)", choice),
    ]

    gate.change_approvals(remove=given.id)

    assert [rule.removed for rule in gate.standing_rules()] == [False, False, True]
    assert not (await gates.check(gate, "pytest -q")).is_allowed
    gate.change_approvals(restore="shell(pytest:*)")
    assert (await gates.check(gate, "pytest -q")).is_allowed


async def test_an_answer_another_kode_removed_counts_no_more(gates):
    beside = gates.gate(Person(PROJECT))
    await gates.check(beside, "npm test")
    for wrong in ({"remove": "zzzz"}, {"remove": "shell(ls:*)"}, {"restore": "shell(npm test:*)"}):
        with pytest.raises(ConfigError):
            beside.change_approvals(**wrong)
    gate = gates.gate()
    assert (await gates.check(gate, "npm test")).is_allowed

    beside.change_approvals(remove="shell(npm test:*)")

    assert not (await gates.check(gate, "npm test")).is_allowed


async def test_a_path_is_judged_as_written_and_as_bound(gates):
    outside = gates.home.parent / "x"
    gate = gates.gate(mode="auto-edit", allow=["edit(a.py)"])

    inside = await gates.judge(gate, WRITE, {"path": "a.py", "content": "x"})
    swapped = await gates.judge(gate, WRITE, {"path": "a.py", "content": "x"}, path=str(outside))

    assert inside.is_allowed
    assert not swapped.is_allowed
    assert str(outside) in swapped.reason


@pytest.mark.parametrize("name", [".env", "../outside.txt", "denied/notes"])
@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
async def test_an_edits_question_quotes_nothing_of_an_unreadable_file(gates, name, mode):
    path = gates.project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("# settings\npassword is swordfish\nfirst = 1\nsecond = swordfish\n")
    gate = gates.gate(Person(ONCE), mode=mode, deny=("read(denied/**)",))
    texts = {"old_text": "first = 1", "new_text": "first = 2"}
    hunks = Hunk(old=["# settings", "password"], new=["x"]), Hunk(old=["first = 1"], new=["2"])
    calls = [(patch_file, {"path": name, "hunks": [hunk]}) for hunk in hunks]
    said, real = "", os.path.realpath(path)
    for tool, arguments in (*calls, (TOOLS["edit_file"], {"path": name, **texts})):
        try:
            decision = await gates.judge(gate, tool, arguments, path=real)
            if decision.is_allowed:
                context = replace(gates.context, path=real, decision=decision)
                said += (await tool.run(context, tool.check(arguments))).text
        except ToolError as error:
            said += str(error)
    assert said
    assert "swordfish" not in said


async def test_an_edit_of_a_readable_file_needs_no_prior_reading(gates):
    (gates.project / "a.py").write_text("first = 1\n")
    edit = {"path": "a.py", "hunks": []}
    assert not (await gates.judge(gates.gate(mode="full"), patch_file, edit)).must_read_first


async def test_advice_for_plan_outweighs_mode_and_rules(gates):
    gate = gates.gate(Person(), mode="full", allow=["shell"])
    advice = Decision(outcome="allow", reason="limits", run_in="read_only")
    for command, runs in (("ls | head", True), ("touch a", False)):
        decision = await gates.judge(gate, TOOLS["shell"], {"command": command}, advice=advice)
        assert (decision.is_allowed, decision.reason) == (runs, "limits")
