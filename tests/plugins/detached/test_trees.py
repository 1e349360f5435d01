"""A worktree of a session: what is merged, what conflicts, and what a drop keeps."""

import pytest

from kode.errors import UserError
from kode.git import run_git
from kode.plugins import worktrees
from kode.plugins.worktrees import KODE_IDENTITY
from tests.needs import needs

pytestmark = needs("git")


def git(folder, *words):
    return run_git(folder, list(words), environ=KODE_IDENTITY).decode().strip()


def commit(folder, name, text):
    (folder / name).write_text(text)
    git(folder, "add", "--all", ".")
    git(folder, "commit", "--quiet", "--message", name)


@pytest.fixture
def project(tmp_path):
    project = tmp_path / "project"
    (project / "part").mkdir(parents=True)
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project, "a.txt", "one\n")
    return project


class Work:
    """A session that has ended, and its worktree."""

    def __init__(self, home, project):
        self.project = project
        self.tree, self.root = worktrees.make_worktree(home, project, "id-1")

    def merge(self):
        return worktrees.merge_worktree(self.tree, "do it", "id-1")

    def is_refused(self, match):
        """A merge that says this, and leaves everything as it was."""
        before = self.state
        with pytest.raises(UserError, match=match):
            self.merge()
        assert self.state == before
        assert self.root.exists()

    @property
    def state(self):
        texts = [path.read_text() for path in sorted(self.project.glob("*.txt"))]
        shown = git(self.project, "rev-parse", "HEAD"), git(self.project, "status", "--porcelain")
        return (*shown, *texts)

    @property
    def is_gone(self):
        """Whether neither folder nor branch are left."""
        return not self.root.exists() and git(self.project, "branch", "--list", "kode/*") == ""


@pytest.fixture
def work(tmp_path, project):
    return Work(tmp_path / "home", project)


def test_a_part_of_the_project_is_that_part_there(tmp_path, project):
    commit(project, "part/b.txt", "x")

    _, cwd = worktrees.make_worktree(tmp_path / "home", project / "part", "id-1")

    assert (cwd / "b.txt").read_text() == "x"
    assert cwd.name == "part"


def test_uncommitted_and_committed_changes_are_merged(work, project):
    commit(work.root, "b.txt", "two\n")
    (work.root / "c.txt").write_text("three\n")
    commit(project, "d.txt", "four\n")

    assert set(work.merge()) == {"b.txt", "c.txt"}

    assert {path.name for path in project.glob("*.txt")} == {"a.txt", "b.txt", "c.txt", "d.txt"}
    assert git(project, "status", "--porcelain") == ""
    assert work.is_gone


def test_a_conflict_leaves_everything_as_it_was(work, project):
    (work.root / "a.txt").write_text("theirs\n")
    commit(project, "a.txt", "ours\n")

    work.is_refused(r"both have changed a\.txt")

    assert (work.root / "a.txt").read_text() == "theirs\n"


def test_a_merge_overwrites_nothing_uncommitted(work, project):
    (work.root / "a.txt").write_text("theirs\n")
    (project / "a.txt").write_text("mine, not committed\n")

    work.is_refused(r"not committed, in a\.txt")


@pytest.mark.parametrize("name", ["mine.log", "built/mine.txt"])
def test_a_merge_overwrites_no_ignored_file(work, project, name):
    for folder in (work.root, project):
        (folder / name).parent.mkdir(exist_ok=True)
    commit(work.root, name, "theirs\n")
    commit(project, "d.txt", "four\n")
    (project / ".git/info/exclude").write_text("*.log\nbuilt/\n")
    (project / name).write_text("mine\n")

    work.is_refused(name)

    assert (project / name).read_text() == "mine\n"


def test_a_branch_merged_by_hand_is_tidied_up(work, project):
    commit(work.root, "a.txt", "theirs\n")
    commit(project, "a.txt", "ours\n")
    work.is_refused("git merge kode/id-1")
    git(project, "merge", "--quiet", "--strategy=ours", "--message", "both", work.tree.branch)
    before = work.state

    work.merge()

    assert work.state == before
    assert work.is_gone


def test_a_tree_without_a_session_leaves_nothing(work):
    worktrees.remove_branch(work.tree, work.tree.base)

    assert work.is_gone


def test_a_folder_without_a_repository_gets_no_worktree(tmp_path):
    with pytest.raises(UserError, match="git init"):
        worktrees.make_worktree(tmp_path / "home", tmp_path, "id-1")
