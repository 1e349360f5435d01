"""Which files of a folder hold keys."""

import os
from pathlib import Path

import pytest

from kode.sandbox import masks
from kode.sandbox.masks import Masks, make_mask, settle_indexes


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("content\n")


def masked(known: Masks) -> list[str]:
    return sorted(str(path.relative_to(known.root)) for path in known.paths())


def test_files_and_folders_with_keys_are_found_at_any_depth(tmp_path):
    put(tmp_path, ".env", "deploy/prod.pem", "src/main.py", ".ssh/config", "a/b/.ENV.local")

    assert masked(Masks(tmp_path)) == [".env", ".ssh", "a/b/.ENV.local", "deploy/prod.pem"]


def test_folders_that_builds_fill_are_not_entered(tmp_path):
    put(tmp_path, "node_modules/a/.env", "build/key.pem", ".git/objects/x.pem")

    assert masked(Masks(tmp_path)) == []


def test_settings_hold_keys_where_their_content_says_so(tmp_path):
    known = Masks(tmp_path)
    put(tmp_path, ".npmrc")
    (tmp_path / ".env").write_text("")
    assert masked(known) == []

    (tmp_path / ".npmrc").write_text("//registry.test/:_authToken=abc\n")
    (tmp_path / ".env").write_text("KEY=1\n")

    assert masked(known) == [".env", ".npmrc"]


def test_what_appears_or_goes_between_two_commands_is_seen(tmp_path):
    put(tmp_path, "a/x.py")
    known = Masks(tmp_path)
    assert masked(known) == []

    put(tmp_path, "a/deep/id_rsa")
    assert masked(known) == ["a/deep/id_rsa"]

    (tmp_path / "a/deep/id_rsa").unlink()
    assert masked(known) == []


def test_what_a_rule_denies_is_masked_too(tmp_path):
    put(tmp_path, "docs/private/plan.md", "docs/plan.md")

    assert masked(Masks(tmp_path, lambda path: "/private" in path)) == ["docs/private"]


def test_the_look_ends_after_so_many_names_and_begins_near_the_top(tmp_path, monkeypatch):
    put(tmp_path, *(f"a/b/c/{n}.txt" for n in range(20)), "z/.env", "a/b/c/d/.env")
    monkeypatch.setattr(masks, "MAX_ENTRIES", 5)

    assert masked(Masks(tmp_path)) == ["z/.env"]


def test_links_are_not_followed_and_a_folder_that_is_gone_holds_nothing(tmp_path):
    put(tmp_path, "outside/.env")
    (tmp_path / "p").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "p" / "link")
    os.symlink(tmp_path / "p", tmp_path / "p" / "loop")

    assert masked(Masks(tmp_path / "p")) == []
    assert masked(Masks(tmp_path / "gone")) == []


@pytest.mark.parametrize("content", ["", "KEY=1", "x" * 5000])
def test_a_mask_is_as_long_and_as_old_as_the_file_and_holds_nothing(tmp_path, content):
    put(tmp_path, ".env")
    (tmp_path / ".env").write_text(content)
    os.utime(tmp_path / ".env", ns=(1, 12_345_678_901))

    mask = make_mask(tmp_path, tmp_path / ".env")

    status = mask.stat()
    assert (status.st_size, status.st_mtime_ns) == (len(content), 12_345_678_901)
    assert status.st_mode & 0o777 == 0
    mask.chmod(0o600)
    assert mask.read_bytes().strip(b"\0") == b""


def test_git_is_not_started_for_an_index_that_is_no_file_of_the_folder(tmp_path, monkeypatch):
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

    settle_indexes(sorted(tmp_path.glob("*/.env")))

    assert started == [tmp_path / "file"]
