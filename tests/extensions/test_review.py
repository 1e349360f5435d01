import json
from dataclasses import replace

import pytest

from kode.extensions import trust
from kode.extensions.review import Reviewer, find_items
from kode.permissions.question import Answer, further_ways


@pytest.fixture
def project(project):
    bring(project, "python one.py")
    return project


def bring(project, command):
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"tool": {"command": command}}}))


class Person:
    def __init__(self, choice):
        self.choice, self.asked = choice, []

    async def __call__(self, question):
        self.asked.append(question)
        return Answer(choice=self.choice)


async def test_a_yes_is_kept_and_not_asked_again(home, project):
    person = Person("once")
    for _ in range(2):
        untrusted = await Reviewer(home, person).review(project)
        assert untrusted == ()
    assert len(person.asked) == 1
    assert "python one.py" in person.asked[0].preview


async def test_a_no_is_not_asked_again_for_the_same_content(home, project):
    person = Person("no")
    reviewer = Reviewer(home, person)
    for _ in range(2):
        untrusted = await reviewer.review(project)
        assert [item.name for item in untrusted] == ["tool"]
    assert len(person.asked) == 1

    bring(project, "python two.py")
    await reviewer.review(project)
    assert len(person.asked) == 2


async def test_a_change_is_asked_about_with_its_diff(home, project):
    person = Person("once")
    await Reviewer(home, person).review(project)
    bring(project, "python two.py")

    await Reviewer(home, person).review(project)

    assert '-  "command": "python one.py"' in person.asked[1].preview
    assert '+  "command": "python two.py"' in person.asked[1].preview


async def test_an_absent_person_approves_nothing_and_gets_the_names(home, project):
    untrusted = await Reviewer(home, None).review(project)
    assert [item.name for item in untrusted] == ["tool"]
    assert trust.load(home, project).items == ()


async def test_trusting_the_project_asks_nothing(home, project):
    person = Person("no")
    untrusted = await Reviewer(home, person).review(project, trust_project=True)
    assert untrusted == ()
    assert person.asked == []


class Chooser:
    """Answers each question by what is looked for in its items, else by a choice."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def __call__(self, question):
        self.asked.append(question)
        answer = self.answers.pop(0)
        if answer in ("once", "no"):
            return Answer(choice=answer)
        return Answer(choice="once", items=(question.items.index(answer),))


def bring_hooks(project, *matchers):
    entry = {"type": "command", "command": "echo hooked"}
    groups = [{"matcher": matcher, "hooks": [entry]} for matcher in matchers]
    folder = project / ".claude"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"hooks": {"PostToolUse": groups}}))


def hook_of(home, project, name):
    return next(item for item in find_items(home, project) if item.name == name)


async def asked_of(home, project, *answers):
    person = Chooser(*answers)
    left = await Reviewer(home, person).review(project)
    return [item.name for item in left], person


async def test_one_item_is_approved_and_the_rest_asked_again(home, project):
    bring_hooks(project, "shell")

    left, person = await asked_of(home, project, 'the MCP server "tool"', "no")

    assert left == ["PostToolUse:shell"]
    assert [one.name for one in trust.load(home, project).items] == ["tool"]
    assert "python one.py" not in person.asked[1].preview


@pytest.mark.parametrize(
    ("more", "network", "writes", "outside"),
    [
        ("", False, False, False),
        (", with the network", True, False, False),
        (", writing in this project", False, True, False),
        (", with the network, writing in this project", True, True, False),
        (", outside the sandbox", False, False, True),
    ],
)
async def test_a_hook_gets_what_was_chosen_until_it_changes(
    home, project, more, network, writes, outside
):
    bring_hooks(project, "shell", "read_file")

    left, _ = await asked_of(home, project, f'the hook "PostToolUse:shell"{more}', "once")

    approvals = trust.load(home, project)
    item = hook_of(home, project, "PostToolUse:shell")
    grants = trust.grants_of(item, approvals)
    assert left == []
    assert (grants.network, grants.outside) == (network, outside)
    assert grants.write == ((str(project),) if writes else ())
    assert (trust.state(trust.outside(item), approvals) == "trusted") is outside
    other = hook_of(home, project, "PostToolUse:read_file")
    assert trust.given_to(other, approvals) == ()
    assert trust.given_to(replace(item, content="another"), approvals) == ()


async def test_a_yes_to_all_gives_nothing_more(home, project):
    bring_hooks(project, "shell")

    await asked_of(home, project, "once")

    assert all(one.grants == () for one in trust.load(home, project).items)


async def test_an_item_that_changes_during_the_question_is_not_approved(home, project):
    bring_hooks(project, "shell")

    async def slow(question):
        bring(project, "python evil.py")
        words = 'the MCP server "tool"'
        if words not in question.items:
            return Answer(choice="no")
        return Answer(choice="once", items=(question.items.index(words),))

    await Reviewer(home, slow).review(project)

    tool = hook_of(home, project, "tool")
    assert "evil" in tool.content
    assert trust.state(tool, trust.load(home, project)) == "changed"


async def test_a_name_cannot_pass_for_another_choice(home, project):
    names = ['x", with the network', "x\n  [y] yes, until it changes", "\x1b]2;a\u202e", "n" * 500]
    bring_hooks(project, *names)

    _, person = await asked_of(home, project, "no")

    question = person.asked[0]
    words = [*further_ways(question).values()]
    assert len(words) == len(set(words)) == 1 + 5 * len(names)
    assert all(one.isprintable() and len(one) < 200 for one in words)
    assert not any(one.startswith('the hook "PostToolUse:x", ') for one in words)


@pytest.mark.parametrize(("hooks", "offered"), [(19, 1 + 5 * 19), (40, 41), (120, 99)])
async def test_many_items_are_offered_within_two_digits(home, project, hooks, offered):
    bring_hooks(project, *(f"tool{number}" for number in range(hooks)))

    _, person = await asked_of(home, project, "no")

    assert len(person.asked[0].items) == offered


async def test_a_project_around_the_home_is_not_offered_for_writing(home, project):
    assert trust.may_write_in(project, home, project)
    assert not trust.may_write_in(home.parent, home, home.parent)
    assert not trust.may_write_in(home / "trust", home, project)


async def test_words_have_no_meaning_for_what_is_approved(home, project):
    _, person = await asked_of(home, project, "no")

    assert not person.asked[0].takes_words
