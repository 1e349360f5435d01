import json

import pytest

from kode.extensions import trust
from kode.extensions.review import review
from kode.permissions.gate import Answer


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
        untrusted = await review(home, project, trust_project=False, ask=person, declined=set())
        assert untrusted == ()
    assert len(person.asked) == 1
    assert "python one.py" in person.asked[0].preview


async def test_a_no_is_not_asked_again_for_the_same_content(home, project):
    person, declined = Person("no"), set()
    for _ in range(2):
        untrusted = await review(home, project, trust_project=False, ask=person, declined=declined)
        assert [item.name for item in untrusted] == ["tool"]
    assert len(person.asked) == 1

    bring(project, "python two.py")
    await review(home, project, trust_project=False, ask=person, declined=declined)
    assert len(person.asked) == 2


async def test_a_change_is_asked_about_with_its_diff(home, project):
    person = Person("once")
    await review(home, project, trust_project=False, ask=person, declined=set())
    bring(project, "python two.py")

    await review(home, project, trust_project=False, ask=person, declined=set())

    assert '-  "command": "python one.py"' in person.asked[1].preview
    assert '+  "command": "python two.py"' in person.asked[1].preview


async def test_an_absent_person_approves_nothing_and_gets_the_names(home, project):
    untrusted = await review(home, project, trust_project=False, ask=None, declined=set())
    assert [item.name for item in untrusted] == ["tool"]
    assert trust.load(home, project).items == ()


async def test_trusting_the_project_asks_nothing(home, project):
    person = Person("no")
    untrusted = await review(home, project, trust_project=True, ask=person, declined=set())
    assert untrusted == ()
    assert person.asked == []
