import json

import pytest

from kode.extensions import trust
from kode.extensions.review import Reviewer, find_items
from kode.permissions.question import Answer
from tests.permissions.gates import NO, ONCE, Person


@pytest.fixture
def project(project):
    bring(project, "python one.py")
    return project


def bring(project, command):
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"tool": {"command": command}}}))


async def test_a_yes_is_kept_until_a_change_shown_as_diff(home, project):
    person = Person(ONCE, ONCE)
    for _ in range(2):
        assert await Reviewer(home, person).review(project) == ()
    assert len(person.questions) == 1
    assert "python one.py" in person.questions[0].preview

    bring(project, "python two.py")
    await Reviewer(home, person).review(project)
    assert '-  "command": "python one.py"' in person.questions[1].preview
    assert '+  "command": "python two.py"' in person.questions[1].preview


async def test_a_no_is_not_asked_again_for_the_same_content(home, project):
    person = Person(NO, NO)
    reviewer = Reviewer(home, person)
    assert await reviewer.review(project, trust_project=True) == ()
    assert person.questions == []
    for _ in range(2):
        assert [item.name for item in await reviewer.review(project)] == ["tool"]
    assert len(person.questions) == 1

    bring(project, "python two.py")
    await reviewer.review(project)
    assert len(person.questions) == 2


async def test_an_absent_person_approves_nothing_and_gets_the_names(home, project):
    assert [item.name for item in await Reviewer(home, None).review(project)] == ["tool"]
    assert trust.load(home, project).items == ()


@pytest.mark.parametrize("choice", ["once", "no"])
async def test_an_item_that_changes_during_the_question_is_not_approved(home, project, choice):
    async def slow(question):
        bring(project, "python evil.py")
        return Answer(choice=choice)

    await Reviewer(home, slow).review(project)

    (tool,) = find_items(home, project)
    assert "evil" in tool.content
    assert trust.state(tool, trust.load(home, project)) == {"once": "changed", "no": "new"}[choice]
