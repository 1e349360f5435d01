"""Which files of a folder hold keys."""

import os
import subprocess
from pathlib import Path

import pytest

from kode.sandbox import masks
from kode.sandbox.masks import Masks, settle_indexes
from kode.workplace import GitFolder
from tests.needs import needs
from tests.undo.changes import plant_programs


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("content\n")


def masked(known: Masks) -> list[str]:
    return sorted(str(path.relative_to(known.roots[0])) for path in known.paths())


def test_files_and_folders_with_keys_are_found_at_any_depth(tmp_path):
    put(tmp_path, ".env", "deploy/prod.pem", "src/main.py", ".ssh/config", "a/b/.ENV.local")

    assert masked(Masks([tmp_path])) == [".env", ".ssh", "a/b/.ENV.local", "deploy/prod.pem"]


def test_folders_that_builds_fill_are_not_entered(tmp_path):
    put(tmp_path, "node_modules/a/.env", "build/key.pem", ".git/objects/x.pem")

    assert masked(Masks([tmp_path])) == []


def test_settings_hold_keys_where_their_content_says_so(tmp_path):
    known = Masks([tmp_path])
    put(tmp_path, ".npmrc")
    (tmp_path / ".env").write_text("")
    assert masked(known) == []

    (tmp_path / ".npmrc").write_text("//registry.test/:_authToken=abc\n")
    (tmp_path / ".env").write_text("KEY=1\n")

    assert masked(known) == [".env", ".npmrc"]


def test_the_look_is_bounded_and_begins_near_the_top(tmp_path, monkeypatch):
    put(tmp_path, *(f"a/b/c/{n}.txt" for n in range(20)), "z/.env", "a/b/c/d/.env")
    monkeypatch.setattr(masks, "MAX_ENTRIES", 5)

    assert masked(Masks([tmp_path])) == ["z/.env"]


def test_links_are_not_followed_and_gone_folders_hold_nothing(tmp_path):
    put(tmp_path, "outside/.env")
    (tmp_path / "p").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "p" / "link")
    os.symlink(tmp_path / "p", tmp_path / "p" / "loop")

    assert masked(Masks([tmp_path / "p"])) == []
    assert masked(Masks([tmp_path / "gone"])) == []


@needs("git")
@pytest.mark.parametrize("place", ["config", "an included file", "a worktree's config"])
def test_refreshing_an_index_runs_nothing_a_repository_names(tmp_path, monkeypatch, place):
    work, proof = tmp_path / "work", tmp_path / "proof"
    put(work, ".env", "a.py", "sub/b.py")
    monkeypatch.setenv("HOME", str(tmp_path))
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "1")):
        subprocess.run(["git", *command], cwd=work, check=True)
    put(work, ".gitattributes")
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    file = work / ".git" / "config"
    if place != "config":
        with open(file, "a") as settings:
            if place == "an included file":
                file = tmp_path / "included"
                settings.write(f"[include]\n\tpath = {file}\n")
            else:
                file = work / ".git" / "config.worktree"
                settings.write("[extensions]\n\tworktreeConfig = true\n")
    index = work / ".git" / "index"
    for path in (work / ".env", work / "a.py", index):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    plant_programs(work, proof, file)

    settle_indexes([work / ".env"], ())

    assert index.stat().st_mtime > 1_000_000_000  # git has refreshed it
    assert not proof.exists()
    subprocess.run(["git", "status"], cwd=work, capture_output=True, check=False)
    assert proof.exists()  # the repository is as hostile as it is meant to be


def test_git_is_not_started_for_a_foreign_index(tmp_path, monkeypatch):
    started: list[Path] = []
    monkeypatch.setattr(masks, "run_git", lambda root, arguments: started.append(root))
    put(tmp_path, "file/.git/index", "elsewhere/index")
    for kind in ("pipe", "link", "folder", "worktree"):
        put(tmp_path, f"{kind}/.env")
    for kind in ("pipe", "link"):
        (tmp_path / kind / ".git").mkdir()
    os.mkfifo(tmp_path / "pipe/.git/index")
    os.symlink(tmp_path / "elsewhere/index", tmp_path / "link/.git/index")
    os.symlink(tmp_path / "elsewhere", tmp_path / "folder/.git")
    (tmp_path / "worktree/.git").write_text(f"gitdir: {tmp_path}/elsewhere\n")
    put(tmp_path, "file/.env")

    tree = GitFolder(path=f"{tmp_path}/elsewhere", worktree=f"{tmp_path}/known")
    put(tmp_path, "known/.git", "known/.env")

    settle_indexes(sorted(tmp_path.glob("*/.env")), (tree,))

    assert started == [tmp_path / "file", tmp_path / "known"]
