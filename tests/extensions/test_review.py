import json

import pytest

from kode.extensions import trust
from kode.extensions.review import Reviewer, find_items
from kode.permissions.question import Answer


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


@pytest.mark.parametrize("choice", ["once", "no"])
async def test_an_item_that_changes_during_the_question_is_not_approved(home, project, choice):
    async def slow(question):
        bring(project, "python evil.py")
        return Answer(choice=choice)

    await Reviewer(home, slow).review(project)

    (tool,) = find_items(home, project)
    assert "evil" in tool.content
    assert trust.state(tool, trust.load(home, project)) == {"once": "changed", "no": "new"}[choice]
