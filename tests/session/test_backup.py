"""What is kept before commands that discard work, and how undo brings it back: with real git."""

import hashlib
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from kode.session.backup import gather_files
from kode.session.checkpoints import Checkpoints
from kode.session.git import ENVIRONMENT, GitError, blobs, run_git, survey
from kode.tool import AtStake
from tests.needs import needs
from tests.session.stories import contents_in

needs_git = needs("git")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Committed: a.py, b.py; changed: a.py; staged: b.py; untracked: new.txt; ignored: out.log."""
    root = tmp_path.resolve() / "repo"
    root.mkdir()
    (root / ".gitignore").write_text("*.log\n")
    (root / "a.py").write_text("a = 1\n")
    (root / "b.py").write_text("b = 1\n")
    (root / "clean.py").write_text("c = 1\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    commit(root, "first")
    (root / "a.py").write_text("a = 2\n")
    (root / "b.py").write_text("b = 2\n")
    git(root, "add", "b.py")
    (root / "new.txt").write_text("new\n")
    (root / "out.log").write_text("log\n")
    return root


def git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def commit(root: Path, message: str) -> None:
    git(root, "commit", "-q", "-m", message)


def opened(root: Path, **more: int) -> Checkpoints:
    folder = root.parent / "checkpoints"
    contents = contents_in(folder, **more)
    return Checkpoints(folder=folder, contents=contents, roots=(root,))


def run(kept: Checkpoints, root: Path, command: str, at_stake: AtStake) -> None:
    """A turn with one command."""
    record = kept.begin_command(1, at_stake)
    subprocess.run(["/bin/sh", "-c", command], cwd=root, check=True, capture_output=True)
    kept.end_command(1, record)
    kept.end_turn()


@needs_git
@pytest.mark.parametrize(
    "command",
    ["git reset --hard", "git checkout -f", "git stash -u && git stash drop", "git clean -fdq"],
)
def test_uncommitted_work_that_a_command_discards_comes_back(repo: Path, command: str) -> None:
    kept = opened(repo)
    before = {name: (repo / name).read_text() for name in ("a.py", "b.py", "new.txt")}

    run(kept, repo, command, AtStake(discarded=(str(repo),)))
    assert before != {name: (repo / name).read_text() for name in before if (repo / name).exists()}
    kept.undo()

    assert {name: (repo / name).read_text() for name in before} == before


@needs_git
def test_recording_touches_neither_tree_nor_index_nor_refs(repo: Path) -> None:
    kept = opened(repo)
    before = snapshot(repo)
    record = kept.begin_command(1, AtStake(discarded=(str(repo),)))
    kept.end_command(1, record)
    assert snapshot(repo) == before
    # Files that changed just now are saved too: they may have changed between two looks.
    assert {str(repo / name) for name in ("a.py", "b.py", "new.txt")} <= set(record.files)


def snapshot(repo: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(repo.rglob("*")) if path.is_file()}


@needs_git
def test_files_that_were_as_committed_come_back_too(repo: Path) -> None:
    git(repo, "stash", "-q")
    (repo / "clean.py").write_text("c = 2\n")
    git(repo, "commit", "-aqm", "second")
    second = git(repo, "rev-parse", "HEAD").strip()
    kept = opened(repo)

    run(kept, repo, "git reset --hard HEAD~1", AtStake(discarded=(str(repo),)))
    assert (repo / "clean.py").read_text() == "c = 1\n"
    undone = kept.undo()

    assert (repo / "clean.py").read_text() == "c = 2\n"
    assert git(repo, "rev-parse", "HEAD").strip() != second
    (note,) = undone.notes
    assert note.startswith(f"main was at {second[:12]}")
    git(repo, *note.split("`")[1].split()[1:])
    assert git(repo, "status", "--short", "--untracked-files=no") == ""
    assert git(repo, "rev-parse", "HEAD").strip() == second


@needs_git
def test_the_way_back_to_a_left_branch_is_told(repo: Path) -> None:
    git(repo, "branch", "other")
    before = git(repo, "diff", "HEAD")
    kept = opened(repo)
    run(kept, repo, "git checkout -f other", AtStake(discarded=(str(repo),)))
    (note,) = kept.undo().notes
    subprocess.run(note.split("`")[1], shell=True, cwd=repo, check=True, capture_output=True)
    assert git(repo, "branch", "--show-current") == "main\n"
    assert git(repo, "diff", "HEAD") == before


@needs_git
def test_a_dropped_stash_comes_back(repo: Path) -> None:
    git(repo, "stash", "-q")
    (repo / "a.py").write_text("a = 3\n")
    git(repo, "stash", "-q")
    before = git(repo, "stash", "list", "--format=%H %gs")
    kept = opened(repo)

    run(kept, repo, "git stash clear", AtStake(discarded=(str(repo),)))
    undone = kept.undo()

    assert git(repo, "stash", "list", "--format=%H %gs") == before
    assert "2 stashes are back (git stash list)." in undone.notes


@needs_git
def test_a_file_the_person_changed_later_is_left_alone(repo: Path) -> None:
    kept = opened(repo)
    run(kept, repo, "git reset --hard", AtStake(discarded=(str(repo),)))
    (repo / "a.py").write_text("a = 9\n")

    undone = kept.undo()

    assert [left for left, _ in undone.left_alone] == [str(repo / "a.py")]
    assert (repo / "a.py").read_text() == "a = 9\n"
    assert (repo / "b.py").read_text() == "b = 2\n"
    kept.redo()
    assert (repo / "b.py").read_text() == "b = 1\n"


@needs_git
def test_programs_that_a_repository_names_do_not_run(repo: Path) -> None:
    proof = repo.parent / "proof"
    script = repo / "evil.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {proof}\ncat\n")
    script.chmod(0o755)
    (repo / ".gitattributes").write_bytes(b"* filter=evil diff=evil\n*.py filter=\xff\n")
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"):
        git(repo, "config", key, str(script))
    with open(repo / ".git" / "config", "ab") as settings:
        settings.write(b'[filter "\xff"]\n\tclean = %s\n' % str(script).encode())
    for key in ("core.fsmonitor", "core.sshCommand", "gpg.program", "diff.evil.textconv"):
        git(repo, "config", key, str(script))
    git(repo, "config", "log.showSignature", "true")
    git(repo, "config", "filter.evil.required", "true")
    for event in ("post-index-change", "reference-transaction"):  # hooks to git 2.54 and newer
        git(repo, "config", "--add", "hook.evil.event", event)
    git(repo, "config", "hook.evil.command", str(script))
    hooks = repo / ".git" / "hooks"
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
    (repo / "clean.py").touch()
    proof.unlink(missing_ok=True)

    kept = opened(repo)
    record = kept.begin_command(1, AtStake(discarded=(str(repo),)))
    kept.end_command(1, record)

    assert not record.problem
    assert str(repo / "a.py") in record.files
    assert not proof.exists()


@needs_git
@pytest.mark.parametrize("key", ["command", "event", "enabled"])
def test_hooks_in_the_settings_of_a_repository_are_off(repo: Path, key: str) -> None:
    git(repo, "config", f"hook.Check it.{key}", "true")

    assert run_git(repo, ["config", "--get", "hook.Check it.enabled"]) == b"false\n"


@needs_git
def test_missing_objects_of_a_repository_are_never_fetched(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert blobs(repo, ["1" * 40]) == {}

    assert not proof.exists()


@needs_git
@pytest.mark.parametrize("flags", [0x0006, 0x8006])
def test_an_index_name_leading_out_is_passed_over(repo: Path, flags: int) -> None:
    """git refuses to add such a name, but reads an index that has one; 0x8000: never looked at."""
    (repo.parent / "out").write_text("mine\n")
    id = bytes.fromhex(git(repo, "rev-parse", "HEAD:a.py").strip())
    entry = struct.pack(">10L20sH", *(0,) * 6, 0o100644, 0, 0, 6, id, flags) + b"../out\0\0\0\0"
    data = b"DIRC" + struct.pack(">2L", 2, 1) + entry
    (repo / ".git" / "index").write_bytes(data + hashlib.sha1(data).digest())
    assert "../out" in git(repo, "ls-files", "--stage")

    found = survey(repo)

    assert not [path for path in (*found.differing, *(found.tracked or ())) if ".." in path]


@needs_git
def test_a_repository_with_files_elsewhere_is_not_read(repo: Path) -> None:
    elsewhere = repo.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("x")
    git(repo, "config", "core.worktree", str(elsewhere))
    record = opened(repo).would_keep(AtStake(discarded=(str(repo),)))
    assert not record.files
    assert "could not be saved first (its settings place its files elsewhere)" in record.sentence()


def test_files_deleted_by_rm_come_back_without_git(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "a.py").write_text("a\n")
    (root / "src" / "b.sh").write_text("b\n")
    (root / "src" / "b.sh").chmod(0o755)
    (root / "src" / "link").symlink_to("b.sh")
    (root / "notes.md").write_text("n\n")
    kept = opened(root)

    stake = AtStake(deleted=(str(root / "src"), str(root / "*.md")))
    run(kept, root, "rm -rf src *.md", stake)
    kept.undo()

    assert (root / "src" / "deep" / "a.py").read_text() == "a\n"
    assert (root / "src" / "b.sh").stat().st_mode & 0o777 == 0o755
    assert (root / "src" / "link").readlink() == Path("b.sh")
    assert (root / "notes.md").read_text() == "n\n"
    kept.redo()
    assert [path.name for path in root.rglob("*") if not path.is_dir()] == []


def test_files_moved_or_rewritten_by_a_command_come_back(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (root / "a").write_text("one\n")
    kept = opened(root)
    stake = AtStake(changed=(str(root / "b"), str(root / "a")))
    run(kept, root, "sed -i s/one/two/ a && mv a b", stake)
    kept.undo()
    assert (root / "a").read_text() == "one\n"
    assert not (root / "b").exists()


def test_a_folder_replacing_a_file_is_left_alone(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (root / "a").write_text("one\n")
    kept = opened(root)
    run(kept, root, "rm a && mkdir a && echo x > a/x", AtStake(deleted=(str(root / "a"),)))
    ((path, why),) = kept.undo().left_alone
    assert (path, "not empty" in why) == (str(root / "a"), True)


def test_folders_that_a_command_made_are_undone_and_redone(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    names = ["b", "b/c", "b/c/x", "d", "d/e"]
    kept = opened(root)
    made = kept.begin_changes(1, [str(root / name) for name in names])
    (root / "b/c").mkdir(parents=True)
    (root / "b/c/x").write_text("x")
    (root / "d/e").mkdir(parents=True)
    kept.end_command(1, made)
    kept.end_turn()

    (root / "d" / "mine").write_text("mine")
    undone = kept.undo()
    assert [path for path, _ in undone.left_alone] == [str(root / "d")]
    assert [one.name for one in root.rglob("*")] == ["d", "mine"]

    kept.redo()
    assert sorted(str(one.relative_to(root)) for one in root.rglob("*")) == [*names, "d/mine"]


def test_an_empty_folder_gives_way_to_the_earlier_file(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (root / "a").write_text("one\n")
    kept = opened(root)
    run(kept, root, "rm a && mkdir a", AtStake(deleted=(str(root / "a"),)))
    assert kept.undo().left_alone == ()
    assert (root / "a").read_text() == "one\n"


def test_outside_files_are_not_kept_when_merely_changed(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (tmp_path / "log").write_text("x")
    record = opened(root).would_keep(AtStake(changed=(str(tmp_path / "log"),)))
    assert not record.files


def test_outside_folders_are_not_kept_and_the_question_says_so(
    tmp_path: Path,
) -> None:
    root, other = tmp_path.resolve() / "plain", tmp_path.resolve() / "other"
    for folder in (root, other):
        folder.mkdir()
        (folder / "a").write_text("x")
    record = opened(root).would_keep(AtStake(deleted=(str(other), str(root))))
    assert list(record.files) == [str(root / "a")]
    assert f"{other} is outside the working folders" in record.sentence()
    assert "/undo may not restore it" in record.sentence()


def test_unchanged_files_are_no_change_of_the_turn(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (root / "a").write_text("one\n")
    kept = opened(root)
    run(kept, root, "true", AtStake(deleted=(str(root / "a"),)))
    (root / "a").write_text("mine\n")
    assert kept.undo().turn is None
    assert (root / "a").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        ({}, "What it deletes is saved first; /undo restores it."),
        (
            {"max_file_bytes": 1000},
            "What it deletes is saved first, except for 1 file (1 MB), which is too much: "
            "/undo restores the rest.",
        ),
        (
            {"max_bytes": 2},
            "What it deletes is too much to save (2 files, 1 MB): /undo cannot restore it.",
        ),
    ],
)
def test_the_sentence_for_the_question_says_what_is_kept(
    tmp_path: Path, contents: dict[str, int], sentence: str
) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (root / "small").write_text("small\n")
    (root / "large").write_bytes(b"x" * 5000)
    record = opened(root, **contents).would_keep(AtStake(deleted=(str(root),)))
    assert record.sentence() == sentence


def test_the_sentence_says_when_nothing_could_be_kept(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    (root / "a").write_text("one\n")
    (tmp_path / "checkpoints").write_text("in the way")
    record = opened(root).would_keep(AtStake(deleted=(str(root / "a"),)))
    assert "could not be saved first" in record.sentence()
    assert "/undo may not restore it" in record.sentence()


def test_a_command_with_nothing_to_lose_announces_nothing(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "plain"
    root.mkdir()
    assert opened(root).would_keep(AtStake(deleted=(str(root / "none"),))).sentence() == ""


def test_a_pipe_in_the_way_is_not_read(tmp_path: Path) -> None:
    import os

    root = tmp_path.resolve() / "plain"
    root.mkdir()
    os.mkfifo(root / "pipe")
    record = opened(root).would_keep(AtStake(deleted=(str(root),)))
    assert not record.files


def test_files_come_back_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for size, name in enumerate(("c", "b", "a")):
        (tmp_path / name).write_text("x" * size)
    contents = contents_in(tmp_path / "kept")
    kept = gather_files(contents, [str(tmp_path / name) for name in ("b", "c", "a")])
    assert [Path(path).name for path in kept.files] == ["a", "b", "c"]


def test_a_folder_made_from_a_file_gives_way_to_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "d").write_text("a file")
    contents = contents_in(tmp_path / "kept")
    checkpoints = Checkpoints(folder=tmp_path / "kept", contents=contents, roots=(work,))
    before = checkpoints.begin_changes(1, [str(work / "d"), str(work / "d" / "e")])
    (work / "d").unlink()
    (work / "d").mkdir()
    (work / "d" / "e").write_text("2")
    checkpoints.end_command(1, before)
    checkpoints.end_turn()

    assert checkpoints.undo().left_alone == ()
    assert (work / "d").read_text() == "a file"
