import json
import os
from pathlib import Path

import pytest

from kode import paths
from kode.errors import ConfigError
from kode.extensions import trust
from kode.extensions.review import Reviewer, describe, find_items
from kode.extensions.trust import Candidate
from kode.permissions.question import Answer
from tests.permissions.gates import NO, ONCE, Person


def an_item(project: Path, **changes) -> Candidate:
    fields = {"kind": "mcp", "name": "files", "origin": project / ".mcp.json", "scope": "project"}
    return Candidate(**{**fields, "content": "run me\n", **changes})


def test_the_home_is_trusted_and_once_the_project(home, project):
    approvals = trust.load(home, project)
    assert trust.state(an_item(project, scope="home"), approvals) == "trusted"
    assert trust.state(an_item(project, scope="home", kind="mcp-tool"), approvals) == "new"
    approvals = trust.load(home, project, trust_project=True)
    assert trust.state(an_item(project), approvals) == "trusted"
    assert trust.state(trust.outside_item(an_item(project)), approvals) == "new"
    assert not paths.trust_file(home, project).exists()


def test_an_approval_covers_one_kind_name_place_and_project(home, project, tmp_path):
    changes = ({"kind": "hook"}, {"name": "other"}, {"origin": project / "kode.json"})
    others = [an_item(project, **change) for change in changes]
    approvals = trust.approve_items(home, project, [an_item(project)])
    path = paths.trust_file(home, project)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [trust.state(other, approvals) for other in others] == ["new"] * 3
    assert trust.state(an_item(project), trust.load(home, tmp_path / "elsewhere")) == "new"
    approvals = trust.approve_items(home, project, [others[1]])
    trust.revoke_approvals(home, project, [one for one in approvals.items if one.name == "files"])
    left = trust.load(home, project)
    assert trust.state(an_item(project), left) == "new"
    assert trust.state(others[1], left) == "trusted"


def test_the_content_of_a_folder_changes_with_anything_in_it(project):
    skill = project / "skill"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("text")
    script = skill / "scripts" / "run.sh"
    script.write_bytes(b"\xff\x00")
    changes = (
        lambda: script.write_bytes(b"\xff\x01"),
        lambda: script.chmod(0o755),
        lambda: script.rename(skill / "scripts" / "ran.sh"),
        lambda: (skill / "link").symlink_to("SKILL.md"),
        lambda: (skill / "SKILL.md").write_text("other"),
        lambda: (skill / ".hidden").write_text(""),
    )
    contents = {trust.folder_content(skill)}
    contents |= {(change(), trust.folder_content(skill))[1] for change in changes}
    assert len(contents) == 1 + len(changes)


KEY = "sk-ant-api03-" + "aB3dE6gH9jK2" * 8


def test_a_key_is_neither_stored_nor_shown(home, project):
    item = an_item(project, content=f"TOKEN={KEY}\n")
    before = trust.load(home, project)
    trust.approve_items(home, project, [item])
    approvals, other = trust.load(home, project), an_item(project, content=f"TOKEN={KEY[:-1]}\n")
    seen = [describe(item, before), describe(other, approvals), trust.diff(other, approvals)]
    seen.append(paths.trust_file(home, project).read_text())
    assert not [text for text in seen if KEY[:-1] in text]
    assert trust.state(item, approvals) == "trusted"
    assert trust.state(other, approvals) == "changed"
    assert trust.diff(other, approvals)


def test_loaded_links_are_pinned_unread_and_gits_files_not(home, project, tmp_path, monkeypatch):
    key, index, more = tmp_path / "id_rsa", project / ".git" / "index", project / "more"
    for file in (key, index, more):
        file.write_text("PRIVATE")
    (project / "link").symlink_to(key)
    trust.approve_items(home, project, [an_item(project)])
    trust.pin_loads(home, project, an_item(project), [str(project / "link"), str(index)])
    assert "PRIVATE" not in paths.trust_file(home, project).read_text()
    index.write_text("two")
    assert trust.state(an_item(project), trust.load(home, project)) == "trusted"
    (project / "link").unlink()
    (project / "link").symlink_to(tmp_path / "other")
    assert trust.state(an_item(project), trust.load(home, project)) == "changed"
    monkeypatch.setattr(trust, "MAX_LOADED", 0)
    with pytest.raises(ConfigError):
        trust.pin_loads(home, project, an_item(project), [str(more)])


def test_unpinnable_content_is_refused_with_the_next_step(project):
    (project / "id_rsa").write_text("PRIVATE")
    makes = {
        "replace the link with a copy": lambda path: path.symlink_to(project),
        "not a regular file": os.mkfifo,
        "links out": lambda path: path.symlink_to("../id_rsa"),
    }
    for said, make in makes.items():
        (project / said).mkdir()
        make(project / said / "part")
        with pytest.raises(ConfigError, match=said):
            trust.folder_content(project / said)


def bring(project, command):
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"tool": {"command": command}}}))


async def test_an_answer_is_kept_until_a_change_shown_as_diff(home, project):
    bring(project, "python one.py")
    person = Person(NO, ONCE, ONCE)
    reviewer = Reviewer(home, person)
    items = find_items(home, project)
    assert await Reviewer(home, person, trust_project=True).review(project, items) == ()
    assert person.questions == []
    for _ in range(2):
        assert [item.name for item in await reviewer.review(project, items)] == ["tool"]
    for _ in range(2):
        assert await Reviewer(home, person).review(project, items) == ()
    bring(project, "python two.py")
    assert await reviewer.review(project, find_items(home, project)) == ()
    first, second, third = (question.preview for question in person.questions)
    assert first == second
    assert "python one.py" in first
    assert '-  "command": "python one.py"' in third
    assert '+  "command": "python two.py"' in third


@pytest.mark.parametrize("choice", ["once", "no"])
async def test_an_item_that_changes_during_the_question_is_not_approved(home, project, choice):
    bring(project, "python one.py")

    async def slow(question):
        bring(project, "python evil.py")
        return Answer(choice=choice)

    await Reviewer(home, slow).review(project, find_items(home, project))

    (tool,) = find_items(home, project)
    assert "evil" in tool.content
    assert trust.state(tool, trust.load(home, project)) == {"once": "changed", "no": "new"}[choice]
