"""Where git keeps the records of a working tree, and whom a folder elsewhere belongs to."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kode.git import git_folder_above, git_folders, git_record, repository_name
from kode.workplace import GitFolder
from tests.needs import needs


def git(cwd: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *who, *words], cwd=cwd, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def repository(folder: Path, *words: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", *words)
    (folder / "a").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "1")
    return folder


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`main` with a submodule that has one, its linked worktree `linked`, and `separate`, whose
    records lie in `records`."""
    folder = tmp_path_factory.mktemp("trees").resolve()
    deep = repository(folder / "deep")
    middle = repository(folder / "middle")
    git(middle, "submodule", "add", "-q", str(deep), "deep")
    git(middle, "commit", "-qm", "2")
    main = repository(folder / "main")
    git(main, "submodule", "add", "-q", str(middle), "libs/middle")
    git(main, "submodule", "update", "-q", "--init", "--recursive")
    git(main, "worktree", "add", "-q", "../linked")
    repository(folder / "separate", "--separate-git-dir=../records")
    return folder


@pytest.fixture
def folder(trees: Path, tmp_path: Path) -> Path:
    """A copy of the trees, to change."""
    copy = tmp_path.resolve() / "trees"
    shutil.copytree(trees, copy, symlinks=True)
    (copy / "linked" / ".git").write_text(f"gitdir: {copy}/main/.git/worktrees/linked\n")
    (copy / "main/.git/worktrees/linked/gitdir").write_text(f"{copy}/linked/.git\n")
    (copy / "separate" / ".git").write_text(f"gitdir: {copy}/records\n")
    return copy


def found(folder: Path, *roots: str) -> dict[str, str | None]:
    """Git's folder → its tree, relative; None for one of several trees."""
    return {
        os.path.relpath(one.path, folder): os.path.relpath(one.worktree, folder)
        if one.worktree
        else None
        for one in git_folders(folder / root for root in roots)
    }


@needs("git")
def test_each_kind_of_tree_has_its_folders(folder: Path) -> None:
    middle, deep = "main/.git/modules/libs/middle", "main/.git/modules/libs/middle/modules/deep"
    inner = {middle: "main/libs/middle", deep: "main/libs/middle/deep"}
    assert found(folder, "main") == {"main/.git": "main", **inner}
    assert found(folder, "main/libs/middle") == inner
    assert found(folder, "main/libs/middle/deep") == {deep: "main/libs/middle/deep"}
    own = "main/.git/worktrees/linked"
    assert found(folder, "linked") == {"main/.git": None, own: "linked"}
    assert found(folder, "linked", "main") == {"main/.git": "main", own: "linked", **inner}
    assert found(folder, "separate") == {"records": "separate"}
    assert found(folder, "records") == {"records": None}
    assert found(folder, ".", "main/nowhere") == {}


@needs("git")
def test_names_that_git_writes_relative_are_followed(folder: Path) -> None:
    own = folder / "main/.git/worktrees/linked"
    (folder / "linked/.git").write_text("gitdir: ../main/.git/worktrees/linked\n")
    (own / "gitdir").write_text("../../../../linked/.git\n")
    assert found(folder, "linked") == {"main/.git": None, "main/.git/worktrees/linked": "linked"}


@needs("git")
@pytest.mark.parametrize(
    "named", ["main/.git", "main/.git/worktrees/linked", "main/.git/modules/libs/middle", "records"]
)
@pytest.mark.parametrize("how", ["file", "link"])
def test_a_folder_must_say_that_it_is_the_trees(folder: Path, named: str, how: str) -> None:
    evil = folder / "evil"
    evil.mkdir()
    (evil / "a").write_text("1\n")  # as in the true tree, but for its time
    if how == "link":
        (evil / ".git").symlink_to(folder / named)
    else:
        (evil / ".git").write_text(f"gitdir: ../{named}\n")
    assert found(folder, "evil") == {}


@needs("git")
def test_a_folder_in_the_tree_cannot_share_another(folder: Path) -> None:
    evil = folder / "evil"
    shutil.copytree(folder / "main/.git/worktrees/linked", evil / ".git")
    (evil / ".git/gitdir").write_text(f"{evil}/.git\n")
    (evil / ".git/commondir").write_text(f"{folder}/main/.git\n")
    assert found(folder, "evil") == {"evil/.git": "evil"}


@needs("git")
def test_a_folder_of_another_user_is_not_the_trees(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.git.os.geteuid", lambda: os.getuid() + 1)
    assert found(folder, "linked") == found(folder, "separate") == {}


@pytest.mark.parametrize(
    "text", ["gitdir: \0", "gitdir: .", "gitdir:", "", "\udcff: x", "gitdir: /"]
)
def test_a_damaged_file_names_no_folder(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_bytes(os.fsencode(text))
    assert git_folders([tmp_path]) == ()


@needs("git")
def test_a_folder_of_git_is_found_around_what_it_holds(folder: Path) -> None:
    assert git_folder_above(f"{folder}/records/refs/heads/x.lock") == f"{folder}/records"
    assert git_folder_above(f"{folder}/main/a") == git_folder_above("") == ""


FOLDERS = (
    GitFolder(path="/m/.git", worktree=""),
    GitFolder(path="/m/.git/worktrees/w", worktree="/w"),
    GitFolder(path="/Records", worktree="/s"),
    GitFolder(path="/Records/modules/a/b", worktree="/s/a/b"),
)


@pytest.mark.parametrize(
    ("folder", "record", "runs"),
    [
        ("/m/.git", "objects/ab/cd objects/pack/x.pack refs/heads/x refs/heads/x.lock refs/tags/v1 "
         "packed-refs info/refs logs/refs/heads/x",
         "HEAD index refs/stash refs/remotes/o/x config hooks/x objects/info/alternates "
         "worktrees/other/index modules/x/index gc.log x/.git/objects/ab/cd"),
        ("/m/.git/worktrees/w", "HEAD index index.lock logs/HEAD COMMIT_EDITMSG ORIG_HEAD",
         "commondir gitdir config.worktree rebase-merge/git-rebase-todo modules/x/index"),
        ("/records", "HEAD index objects/ab/cd", "config hooks/x modules/other/index anything"),
        ("/records/modules/a/b", "HEAD index objects/ab/cd", "config hooks/x modules/c/index"),
        ("/elsewhere/.GIT", "HEAD index objects/ab/cd", "config hooks/x modules/x/index"),
    ],
)  # fmt: skip
def test_the_nearest_folder_says_what_is_a_record(folder: str, record: str, runs: str) -> None:
    for expected, names in (("record", record), ("runs", runs)):
        for name in names.split():
            assert git_record(FOLDERS, f"{folder}/{name}") == expected, name
    assert git_record(FOLDERS, folder) == "runs"
    for path in ("/w/a", "/s/HEAD", "/recordsx/config", "/m/.github/x", "/m/x.git"):
        assert git_record(FOLDERS, path) == ""


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:org/api.git", "github.com/org/api"),
        ("https://ada:token@GitHub.com/org/api.git/", "github.com/org/api"),
        ("../elsewhere", ""),
        ("http://[", ""),
    ],
)
def test_a_repository_has_one_name_however_it_was_cloned(tmp_path: Path, url: str, name: str):
    (tmp_path / "main" / ".git").mkdir(parents=True)
    settings = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n'
    (tmp_path / "main" / ".git" / "config").write_text(settings)

    assert repository_name(tmp_path / "main") == name
    assert repository_name(tmp_path) == ""
