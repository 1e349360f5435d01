"""A repository that somebody else has made runs no program and leads nowhere when it is surveyed
or its index is refreshed."""

import hashlib
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from kode.errors import GitError
from kode.git import ENVIRONMENT, run_git
from kode.sandbox.layer import settle_indexes
from kode.undo.outside import survey_tree
from kode.workplace import GitFolder
from tests.undo.changes import plant_programs
from tests.undo.test_outside import before, git, opened, repo, turn_id

__all__ = ["repo"]


def test_programs_that_a_repository_names_do_not_run(repo: Path) -> None:
    proof = repo.parent / "proof"
    (repo / ".gitattributes").write_bytes(b"*.sh filter=evil diff=evil\n*.py filter=\xff\n")
    plant_programs(repo, proof, repo / ".git" / "config")
    with open(repo / ".git" / "config", "ab") as settings:
        settings.write(b'[filter "\xff"]\n\tsmudge = %s\n' % str(proof.with_suffix(".sh")).encode())

    undo = opened(repo)
    step = undo.begin(turn_id(1), writes=())
    for name in (".gitignore", "clean.py", "run.sh"):
        (repo / name).write_text("other")
    undo.end(step)
    undone = undo.undo()
    (repo / ".env").touch()
    os.utime(repo / ".git/index", (1, 1))
    settle_indexes([repo / ".env"], ())

    assert [*undone.changed_files] == [str(repo / ".gitignore")]
    assert {path for path, _ in undone.left_alone} == {str(repo / "clean.py"), str(repo / "run.sh")}
    assert not step.problem
    assert (repo / ".git/index").stat().st_mtime > 1
    assert not proof.exists()
    git(repo, "status")
    assert proof.exists()  # it is as hostile as it is meant to be


def test_an_index_elsewhere_is_refreshed_only_for_a_known_tree(repo: Path) -> None:
    index, link, tree = (repo.parent / name for name in ("repo/.git/index", "link", "tree"))
    git(repo.parent, "init", "-q", "link")
    git(repo.parent, "init", "-q", "pipe")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {repo}/.git\n")
    os.symlink(index, link / ".git/index")
    os.mkfifo(repo.parent / "pipe/.git/index")  # git would wait for it
    keys = [repo.parent / name / ".env" for name in ("link", "pipe", "tree")]
    for path in keys:
        path.touch()
    os.utime(index, (1, 1))

    settle_indexes(keys, ())
    assert (link / ".git/index").is_symlink()
    assert index.stat().st_mtime == 1
    settle_indexes(keys, (GitFolder(path=f"{repo}/.git", worktree=str(tree)),))
    assert index.stat().st_mtime > 1


@pytest.mark.parametrize("key", ["command", "event", "enabled"])
def test_hooks_in_the_settings_of_a_repository_are_off(repo: Path, key: str) -> None:
    git(repo, "config", f"hook.Check it.{key}", "true")

    assert run_git(repo, ["config", "--get", "hook.Check it.enabled"]) == b"false\n"


def test_missing_objects_are_never_fetched(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = repo.parent / "proof"
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "evil",
        "remote.evil.promisor": "true",
        "remote.evil.url": f"ext::touch {proof}",
        "protocol.ext.allow": "always",
    }
    for key, value in settings.items():
        git(repo, "config", key, value)
    # As versions of git do that do not know it.
    monkeypatch.delitem(ENVIRONMENT, "GIT_NO_LAZY_FETCH")

    with suppress(GitError):  # some versions end, others go on without it
        assert b"missing" in run_git(repo, ["cat-file", "--batch-check"], stdin=b"1" * 40 + b"\n")

    assert not proof.exists()


def test_a_missing_object_costs_one_file(repo: Path) -> None:
    undo = opened(repo)
    lost = git(repo, "rev-parse", "HEAD:clean.py").strip()
    step = undo.begin(turn_id(1), writes=())
    for name in ("clean.py", "run.sh"):
        (repo / name).write_text("other")
    (repo / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    undo.end(step)

    undone = undo.undo()

    assert [*undone.changed_files] == [str(repo / "run.sh")]
    assert [path for path, _ in undone.left_alone] == [str(repo / "clean.py")]


def test_a_command_that_removes_the_records_of_git_is_named(repo: Path) -> None:
    was = (repo / "a.py").read_text()
    step = opened(repo).begin(turn_id(1), writes=())
    shutil.rmtree(repo / ".git")
    (repo / "a.py").write_text("other")
    opened(repo).end(step)

    assert "git" in step.problem
    assert opened(repo).undo().left_alone == ()
    assert (repo / "a.py").read_text() == was


@pytest.mark.parametrize("flags", [0x0006, 0x8006])
def test_an_index_name_leading_out_is_passed_over(repo: Path, flags: int) -> None:
    """git refuses to add such a name, but reads an index that has one; 0x8000: never looked at."""
    (repo.parent / "out").write_text("mine\n")
    id = bytes.fromhex(git(repo, "rev-parse", "HEAD:a.py").strip())
    entry = struct.pack(">10L20sH", *(0,) * 6, 0o100644, 0, 0, 6, id, flags) + b"../out\0\0\0\0"
    data = b"DIRC" + struct.pack(">2L", 2, 1) + entry
    (repo / ".git" / "index").write_bytes(data + hashlib.sha1(data).digest())
    assert "../out" in git(repo, "ls-files", "--stage")

    tree = survey_tree(repo)

    assert not [path for path in (*tree.files, *tree.names) if ".." in path]
    assert not [path for path in before(repo).before if ".." in path]
