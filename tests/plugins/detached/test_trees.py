"""A worktree of a session: what is merged, what conflicts, and what a drop keeps."""

import time
from pathlib import Path

import pytest

from kode.errors import UserError
from kode.plugins.detached import trees
from kode.plugins.detached.places import Background, Spec, State, Tree
from kode.plugins.worktrees import KODE_IDENTITY
from kode.session.git import run_git
from tests.needs import needs

pytestmark = needs("git")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "part").mkdir(parents=True)
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project, "a.txt", "one\n")
    return project


def git(folder: Path, *words: str) -> str:
    return run_git(folder, list(words), environ=KODE_IDENTITY).decode().strip()


def commit(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    git(folder, "add", "--all", ".")
    git(folder, "commit", "--quiet", "--message", name)


def made(tmp_path: Path, project: Path) -> tuple[Background, Tree]:
    tree, cwd = trees.make(tmp_path / "home", project, "id-1")
    spec = Spec(
        id="id-1", words=(), title="do it", task="do it", cwd=str(cwd), at=time.time(), tree=tree
    )
    folder = tmp_path / "home" / "detached" / "id-1"
    return Background(folder=folder, spec=spec, state=State(doing="ended"), life="ended"), tree


def state_of(project: Path) -> tuple[str, str, str]:
    return (
        git(project, "rev-parse", "HEAD"),
        git(project, "status", "--porcelain"),
        "".join(path.read_text() for path in sorted(project.glob("*.txt"))),
    )


def test_a_part_of_the_project_is_that_part_there(tmp_path: Path, project: Path) -> None:
    commit(project, "part/b.txt", "x")

    _, cwd = trees.make(tmp_path / "home", project / "part", "id-1")

    assert (cwd / "b.txt").read_text() == "x"
    assert cwd.name == "part"


def test_uncommitted_and_committed_changes_are_merged(tmp_path: Path, project: Path) -> None:
    one, tree = made(tmp_path, project)
    commit(Path(tree.root), "b.txt", "two\n")
    (Path(tree.root) / "c.txt").write_text("three\n")
    commit(project, "d.txt", "four\n")
    assert set(trees.changed(tree)) == {"b.txt", "c.txt"}

    merged = trees.merge(tmp_path / "home", one, tree)

    assert set(merged) == {"b.txt", "c.txt"}
    assert {path.name for path in project.glob("*.txt")} == {"a.txt", "b.txt", "c.txt", "d.txt"}
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "branch", "--list", "kode/*") == ""
    assert not Path(tree.root).exists()


def test_a_conflict_leaves_everything_as_it_was(tmp_path: Path, project: Path) -> None:
    one, tree = made(tmp_path, project)
    (Path(tree.root) / "a.txt").write_text("theirs\n")
    commit(project, "a.txt", "ours\n")
    before = state_of(project)

    with pytest.raises(UserError, match=r"both have changed a\.txt"):
        trees.merge(tmp_path / "home", one, tree)

    assert state_of(project) == before
    assert (Path(tree.root) / "a.txt").read_text() == "theirs\n"
    assert git(project, "branch", "--list", "kode/*") != ""


def test_a_merge_overwrites_nothing_uncommitted(tmp_path: Path, project: Path) -> None:
    one, tree = made(tmp_path, project)
    (Path(tree.root) / "a.txt").write_text("theirs\n")
    (project / "a.txt").write_text("mine, not committed\n")
    before = state_of(project)

    with pytest.raises(UserError, match=r"not committed, in a\.txt"):
        trees.merge(tmp_path / "home", one, tree)

    assert state_of(project) == before
    assert Path(tree.root).exists()


@pytest.mark.parametrize("name", ["mine.log", "built/mine.txt"])
def test_a_merge_overwrites_no_ignored_file(tmp_path: Path, project: Path, name: str) -> None:
    one, tree = made(tmp_path, project)
    (Path(tree.root) / name).parent.mkdir(exist_ok=True)
    commit(Path(tree.root), name, "theirs\n")
    commit(project, "d.txt", "four\n")
    (project / ".git/info/exclude").write_text("*.log\nbuilt/\n")
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("mine\n")

    with pytest.raises(UserError, match=name):
        trees.merge(tmp_path / "home", one, tree)

    assert (project / name).read_text() == "mine\n"


def test_a_branch_merged_by_hand_is_tidied_up(tmp_path: Path, project: Path) -> None:
    one, tree = made(tmp_path, project)
    commit(Path(tree.root), "a.txt", "theirs\n")
    commit(project, "a.txt", "ours\n")
    with pytest.raises(UserError, match="git merge kode/id-1"):
        trees.merge(tmp_path / "home", one, tree)
    git(project, "merge", "--quiet", "--strategy=ours", "--message", "both", tree.branch)
    before = state_of(project)

    trees.merge(tmp_path / "home", one, tree)

    assert state_of(project) == before
    assert not Path(tree.root).exists()
    assert git(project, "branch", "--list", "kode/*") == ""


def test_a_dropped_tree_can_be_brought_back(tmp_path: Path, project: Path) -> None:
    one, tree = made(tmp_path, project)
    (Path(tree.root) / "a.txt").write_text("theirs\n")

    kept = trees.drop(tmp_path / "home", one, tree)

    assert git(project, "show", f"{kept}:a.txt") == "theirs"
    assert not Path(tree.root).exists()
    assert git(project, "branch", "--list", "kode/*") == ""


def test_a_tree_without_a_session_leaves_nothing(tmp_path: Path, project: Path) -> None:
    _, tree = made(tmp_path, project)

    trees.remove(tmp_path / "home", tree, tree.base)

    assert not Path(tree.root).exists()
    assert git(project, "branch", "--list", "kode/*") == ""


def test_a_folder_without_a_repository_gets_no_worktree(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="git init"):
        trees.make(tmp_path / "home", tmp_path, "id-1")
