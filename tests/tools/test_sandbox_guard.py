"""What is put back after a command, and what is believed of a `.git`; needs no sandbox."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.tools import sandbox_git
from kode.tools.sandbox_guard import guard


@pytest.fixture
def git(work: Path) -> Path:
    hook = work / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    return work / ".git"


def settled(git: Path, change: Callable[[], object]) -> str:
    """What was said of a change during a command."""
    settle = guard([git], whole=True, records=git.parent.parent / "records")
    change()
    return settle()


def changes(git: Path) -> list[Callable[[], object]]:
    elsewhere = git.parent / "elsewhere"

    def rename() -> None:
        git.rename(elsewhere)

    def replace_by_link() -> None:
        git.rename(elsewhere)
        git.symlink_to(elsewhere)

    def replace_hooks() -> None:
        shutil.rmtree(git / "hooks")
        (git / "hooks").symlink_to("/tmp")

    return [
        lambda: (git / "config").write_text("evil"),
        lambda: (git / "config").unlink(),
        lambda: (git / "hooks" / "pre-push").chmod(0o644),
        lambda: (git / "hooks" / "pre-commit").write_text("evil"),
        lambda: shutil.rmtree(git / "hooks"),
        replace_hooks,
        rename,
        replace_by_link,
    ]


@pytest.mark.parametrize("at", range(8))
def test_every_change_is_undone_and_what_it_was_is_kept(git: Path, at: int) -> None:
    before = {
        path: (path.read_bytes(), path.stat().st_mode)
        for path in (git / "config", *(git / "hooks").iterdir())
    }

    settled(git, changes(git)[at])

    after = [path for path in (git / "hooks").iterdir() if ".from-sandbox-" not in path.name]
    assert {
        path: (path.read_bytes(), path.stat().st_mode) for path in (git / "config", *after)
    } == before
    assert not git.is_symlink()
    assert not (git / "hooks").is_symlink()


def test_nothing_is_said_where_nothing_was_changed(git: Path) -> None:
    assert settled(git, lambda: (git / "HEAD").write_text("ref: refs/heads/other\n")) == ""


def test_what_redirects_git_is_put_aside_though_only_that_is_watched(git: Path) -> None:
    settle = guard([git], whole=False, records=git / "unused")
    (git / "commondir").write_text("../evil")
    assert "commondir.from-sandbox-" in settle()
    assert not (git / "commondir").exists()
    assert not (git / "unused").exists()


def test_nothing_is_written_through_a_link_that_took_the_place_of_a_folder(git: Path) -> None:
    theirs = git.parent.parent / "theirs"
    theirs.mkdir()
    given = git.parent / "given"
    given.mkdir()
    (given / "file").write_text("given")
    settle = guard([given / "file"], whole=True, records=git.parent.parent / "records")
    shutil.rmtree(given)
    given.symlink_to(theirs)

    settle()

    assert os.listdir(theirs) == []
    assert (given / "file").read_text() == "given"


def test_a_file_git_is_believed_only_where_the_other_side_knows_of_it(
    home: Path, work: Path
) -> None:
    def run(*words: str) -> None:
        subprocess.run(["git", "-C", str(work), *words], check=True, capture_output=True)

    run("commit", "-qm", "first", "--allow-empty")
    run("worktree", "add", "-q", str(home / "tree"))
    stranger = home / "stranger"
    stranger.mkdir()
    shutil.copy(home / "tree" / ".git", stranger / ".git")

    found = sandbox_git.repository(home / "tree")
    assert found is not None
    assert (found.common, found.own) == (work / ".git", work / ".git" / "worktrees" / "tree")
    assert sandbox_git.repository(stranger) is None


def test_commands_side_by_side_go_by_what_the_first_found_and_leave_no_copy_of_it(
    git: Path,
) -> None:
    records = git.parent.parent / "records"
    first = guard([git], whole=True, records=records)
    (git / "hooks" / "pre-commit").write_text("evil")
    second = guard([git], whole=True, records=records)

    written = [file for file in records.iterdir() if file.stat().st_size]
    assert [file.stat().st_mode & 0o777 for file in written] == [0o600]
    first_said = first()
    (git / "hooks" / "post-merge").write_text("evil")
    second_said = second()

    assert "pre-commit" in first_said
    assert "post-merge" in second_said
    assert sorted(file.name for file in (git / "hooks").iterdir() if file.suffix == "") == [
        "pre-push"
    ]
    assert [file for file in records.iterdir() if file.stat().st_size] == []
    assert "pre-push" in settled(git, lambda: (git / "hooks" / "pre-push").write_text("evil"))
