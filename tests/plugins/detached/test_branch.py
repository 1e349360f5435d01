"""`--worktree`: where a run or a chat works, and what becomes of the worktree at its end."""

from argparse import Namespace

import pytest

from kode import paths
from kode.cli.commands.run import RunOptions, wrap_by_plugins
from kode.cli.flags import working_directory
from kode.errors import ConfigError, SessionError, UserError
from kode.plugins.detached import places
from kode.plugins.detached.command import ps
from tests.needs import needs
from tests.plugins.detached.test_trees import commit, git, project

pytestmark = needs("git")
__all__ = ["project"]


def flags(project, *words):
    return RunOptions.parse(["do it", "--cwd", str(project), "--worktree", *words]).arguments


def test_a_run_without_a_change_leaves_no_worktree(project, capsys):
    with wrap_by_plugins(arguments := flags(project), None):
        cwd = working_directory(arguments)
        assert (cwd / "a.txt").exists()
        assert cwd != project

    assert "Nothing was changed on the branch kode/" in capsys.readouterr().err
    assert not cwd.exists()
    assert git(project, "branch", "--list", "kode/*") == ""


@pytest.mark.parametrize("is_committed", [False, True])
def test_work_is_kept_with_what_merges_it(project, capsys, is_committed):
    (project / "a.txt").write_text("uncommitted\n")
    with wrap_by_plugins(arguments := flags(project, "login"), None):
        root = working_directory(arguments)
        (root / "b.txt").write_text("two\n")
        if is_committed:
            commit(root, "c.txt", "three\n")

    first, last = capsys.readouterr().err.splitlines()
    assert first == f"kode: Uncommitted changes of {project} are not in its worktree."
    assert f"branch kode/login, in {root} (b.txt" in last
    assert "`kode ps --done --merge login` merges it, `--drop login` drops it." in last
    assert arguments.name == "login"
    kept = places.find_background(paths.kode_home(), "login")
    assert (kept.life, kept.files[0]) == ("ended", "b.txt")
    places.write_state(kept.folder, kept.state.model_copy(update={"settled": "merged"}))
    with pytest.raises(SessionError):
        places.find_background(paths.kode_home(), "login")
    with pytest.raises(UserError, match="There is a worktree login already"):
        with wrap_by_plugins(flags(project, "login"), None):
            pass


def test_two_worktrees_of_one_name_are_both_kept_when_dropped(project):
    for text in ("first", "second"):
        with wrap_by_plugins(arguments := flags(project, "login"), None):
            (working_directory(arguments) / "b.txt").write_text(text)
        assert ps(["--done", "--drop", "login"]) == 0

    refs = git(project, "for-each-ref", "--format=%(refname)", "refs/kode/dropped").split()
    assert {git(project, "show", f"{ref}:b.txt") for ref in refs} == {"first", "second"}


@pytest.mark.parametrize("is_repository", [True, False])
def test_a_worktree_removed_by_hand_can_be_dropped(project, capsys, is_repository):
    with wrap_by_plugins(arguments := flags(project, "login"), None):
        root = working_directory(arguments)
        (root / "b.txt").write_text("two\n")
    git(project, "worktree", "remove", "--force", str(root))
    git(project, "branch", "-D", "kode/login")
    if not is_repository:
        (project / ".git").rename(project / "git")

    assert ps(["--done", "--drop", "login"]) == 0
    assert ps(["--done"]) == 0

    assert "dropped" in (out := capsys.readouterr().out)
    assert "--drop" not in out


def test_a_name_of_a_worktree_is_a_word(project):
    for name in ("2026", "a/b", "-x", ""):
        arguments = Namespace(**vars(flags(project)) | {"worktree": name or "."})
        with pytest.raises(ConfigError, match="--worktree"):
            with wrap_by_plugins(arguments, None):
                pass
    with pytest.raises(ConfigError, match="begins another session"):
        with wrap_by_plugins(flags(project), "20260101-000000-abcdef"):
            pass


def test_a_task_behind_the_flag_is_the_task():
    for words, name in ((["fix it"], ""), (["login", "fix it"], "login")):
        arguments = RunOptions.parse(["--worktree", *words]).arguments
        assert (arguments.task, arguments.worktree) == ("fix it", name)
