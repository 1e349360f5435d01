"""Of a repository's `.git`, a command's changes are kept only where git runs nothing of them."""

import subprocess
from pathlib import Path

from kode.permissions import places
from tests.needs import needs
from tests.tables import for_each

RUN_OR_FETCHED = (
    "hooks/pre-commit config config.worktree commondir info/attributes info/exclude "
    "modules/x/config rebase-merge/git-rebase-todo rebase-apply/0001 sequencer/todo "
    "objects/info/alternates objects/info/http-alternates remotes/origin branches/main shallow "
    "refs/replace/abc "
    "refs/remotes/origin/main refs/bisect/bad BISECT_RUN worktrees/w/config worktrees/w/commondir "
    "worktrees/w/gitdir fsmonitor--daemon.ipc lfs/objects/x svn/.metadata anything"
).split()


@for_each("name", RUN_OR_FETCHED)
@for_each("folder", ["/p/.git/", "/p/sub/.GIT/"])
def test_a_name_outside_the_list_is_asked_about(folder: str, name: str) -> None:
    assert places.runs_later(folder + name)


@needs("git")
def test_everyday_git_changes_nothing_outside_the_list(tmp_path: Path) -> None:
    def git(*words: str, fails: bool = False) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True)
        assert fails or done.returncode == 0, done.stderr

    def files() -> dict[str, bytes]:
        inside = (tmp_path / ".git").rglob("*")
        return {str(path): path.read_bytes() for path in inside if path.is_file()}

    git("init", "-q")
    before = files()
    for branch, text in (("main", "one"), ("other", "two")):
        git("checkout", "-q", "-b", branch)
        (tmp_path / "a").write_text(text)
        git("add", "a")
        git("commit", "-q", "-m", text)
    (tmp_path / "a").write_text("three")
    git("stash")
    git("stash", "pop")
    git("commit", "-q", "-a", "-m", "three")
    git("checkout", "-q", "main")
    (tmp_path / "a").write_text("four")
    git("commit", "-q", "-a", "-m", "four")
    git("commit", "-q", "--amend", "-m", "four, again")
    git("merge", "other", fails=True)
    git("checkout", "--theirs", "a")
    git("commit", "-q", "-a", "-m", "merged")
    git("tag", "v1")
    git("revert", "--no-edit", "-m", "1", "HEAD")
    git("cherry-pick", "other", fails=True)
    git("cherry-pick", "--abort")
    git("gc", "-q")
    git("branch", "-D", "other")

    assert not {path for path in before if path not in files()}
    changed = [path for path, data in files().items() if before.get(path) != data]

    assert [path for path in changed if places.runs_later(path)] == []
