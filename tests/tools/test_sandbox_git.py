"""Git in the sandbox: work goes on, hooks and settings stay."""

import subprocess
from pathlib import Path

import pytest

from tests.tools.sandboxed import Run, opened

PLANT = (
    "for d in $(git rev-parse --git-dir) $(git rev-parse --git-common-dir); do "
    "echo evil > $d/hooks/post-commit; echo evil >> $d/config; echo ../evil > $d/commondir; "
    "rm -rf $d/hooks; ln -s /tmp $d/hooks; mv $d ${d}gone; done; "
    "git config core.fsmonitor evil; mv .git gone"
)
"""All that makes git run something later."""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def main(home: Path, work: Path) -> Path:
    """A repository with a commit, a linked worktree beside it and a submodule in it."""
    library = home / "library"
    library.mkdir()
    git(library, "init", "-q")
    for folder in (library, work):
        (folder / "a").write_text("a\n")
        git(folder, "add", "a")
        git(folder, "commit", "-qm", "first")
    git(work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "libs/it")
    git(work, "commit", "-qm", "a submodule")
    git(work, "worktree", "add", "-q", str(home / "tree"), "-b", "side")
    return work


def at(run: Run, home: Path, folder: Path) -> Run:
    """The same kind of sandbox, with another folder of work."""
    return Run(opened(home, folder), run.kind)


@pytest.mark.parametrize("name", ["work", "tree", "work/libs/it"])
def test_git_works_but_nothing_of_it_runs_later(
    run: Run, home: Path, main: Path, name: str
) -> None:
    folder = home / name
    here = at(run, home, folder)
    folders = (main / ".git", main / ".git" / "modules" / "libs" / "it")
    settings = [(git_folder / "config").read_text() for git_folder in folders]

    done = here(
        "echo b > b && git add b && git commit -qm second && git checkout -qb other && "
        "git tag t && git gc -q && git status -s && git log --format=%s -1"
    )
    assert (done.code, done.out) == (0, "second\n"), done.err
    here(PLANT)

    assert git(folder, "log", "--format=%s", "-1") == "second\n"
    assert [(git_folder / "config").read_text() for git_folder in folders] == settings
    assert not any((git_folder / "commondir").exists() for git_folder in folders)
    assert not any((git_folder / "hooks" / "post-commit").exists() for git_folder in folders)
    assert all((git_folder / "hooks").is_dir() for git_folder in folders)


def test_the_checkout_that_a_worktree_belongs_to_is_left_alone(
    run_whole: Run, home: Path, main: Path
) -> None:
    here = at(run_whole, home, home / "tree")
    here(f"echo x > {main}/.git/HEAD; echo x > {main}/.git/index; echo x > {main}/a")
    assert git(main, "status", "-s") == ""


def test_a_file_that_claims_another_s_repository_is_not_believed(run: Run, home: Path) -> None:
    other = home / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "a").write_text("a")
    git(other, "add", "a")
    git(other, "commit", "-qm", "first")
    git(other, "worktree", "add", "-q", str(home / "others-tree"))
    mine = home / "mine"
    mine.mkdir()
    here = at(run, home, mine)
    forged = "fake/.git/worktrees/x"
    for claim in ("../other/.git", "../other/.git/worktrees/others-tree", forged):
        here(
            f"mkdir -p {forged}; echo {other}/.git > {forged}/commondir; "
            f"echo {mine}/.git > {forged}/gitdir; echo 'gitdir: {claim}' > .git"
        )
        here(f"echo x > {other}/.git/planted; cat {other}/.git/config > seen")
        assert not (other / ".git" / "planted").exists()
        assert not (mine / "seen").exists() or (mine / "seen").read_text() == ""
        (mine / ".git").unlink(missing_ok=True)


def test_other_hooks_and_settings_that_the_settings_name_stay(
    run_whole: Run, home: Path, work: Path
) -> None:
    (work / "githooks").mkdir()
    (work / "more.gitconfig").write_text("")
    git(work, "config", "core.hooksPath", "githooks")
    git(work, "config", "include.path", "../more.gitconfig")
    run_whole("echo evil > githooks/pre-commit; echo evil > more.gitconfig")
    assert list((work / "githooks").iterdir()) == []
    assert (work / "more.gitconfig").read_text() == ""


def test_what_a_command_made_of_hooks_is_put_aside_and_told(run_alone: Run, work: Path) -> None:
    hook = work / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)

    done = run_alone("echo evil > .git/hooks/pre-push; echo evil > .git/hooks/pre-commit")

    assert (hook.read_text(), hook.stat().st_mode & 0o777) == ("#!/bin/sh\n", 0o755)
    assert not (work / ".git" / "hooks" / "pre-commit").exists()
    assert "pre-push was put aside" in done.put_back
    assert run_alone("true").put_back == ""


def test_what_a_command_beside_it_has_planted_is_not_taken_for_the_old(
    run_alone: Run, work: Path
) -> None:
    before = (work / ".git" / "config").read_text()
    first = run_alone.sandbox.command("landlock", ("/bin/true",))
    (work / ".git" / "config").write_text("evil")
    second = run_alone.sandbox.command("landlock", ("/bin/true",))

    first.settle()
    second.settle()

    assert (work / ".git" / "config").read_text() == before
