"""What is known of a repository between commands, against what git says when it is asked afresh."""

import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from kode.session import watched
from kode.session.checkpoints import Checkpoints
from kode.session.git import Survey, Tracked, survey
from kode.session.watched import Repositories
from kode.tool import AtStake
from tests.needs import needs
from tests.session.stories import contents_in

pytestmark = [pytest.mark.slow, pytest.mark.sampled(of=4), needs("git")]

BETWEEN = {
    "nothing": "true",
    "an edit of a committed file": "echo mine > a/clean.txt",
    "an edit of a file that is ignored": "echo mine > out.log",
    "a new file": "echo mine > new.txt",
    "a new folder": "mkdir -p x/y/z && echo mine > x/y/z/new.txt",
    "a file in a folder that was empty": "echo mine > empty/new.txt",
    "a deleted file": "rm a/clean.txt",
    "a deleted folder": "rm -r a",
    "a folder made again": "rm -r a && git checkout -q . && echo mine > a/clean.txt",
    "a renamed folder": "mv a e && echo mine > e/clean.txt",
    "a folder that became a link": "rm -r a && ln -s b a",
    "a file that became a folder": "rm b/two.txt && mkdir b/two.txt && echo 1 > b/two.txt/x",
    "a commit": "echo mine > a/clean.txt && git commit -qam second",
    "a commit taken back": "git reset -q --soft HEAD~1",
    "another branch": "git checkout -q -b other HEAD~1 && echo mine > a/clean.txt",
    "other rules": "echo '*.tmp' > .gitignore",
    "other rules of this copy": "echo 'a/*.txt' > .git/info/exclude",
    "an ignored file that is added": "echo mine > out.log && git add -f out.log",
    "a file that is no longer tracked": "git rm -q --cached a/clean.txt",
    "a changed mode": "chmod +x a/clean.txt",
    "a nested repository": "git init -q nested && echo theirs > nested/file",
    "a repository no longer nested": "rm -rf inner/.git",
    "a name with a line feed": "echo mine > 'a/li\nne.txt'",
    "a name that is a pattern": "echo mine > 'a/*.txt'",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    for name in ("a/clean.txt", "a/one.txt", "b/two.txt", "c/d/three.txt", "dirty.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("0\n")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    sh(root, "git init -q -b main && git add . && git commit -qm zeroth")
    sh(root, "echo first > c/d/three.txt && git commit -qam first")
    sh(root, "mkdir empty build inner && git init -q inner && echo theirs > inner/file")
    sh(root, "echo log > out.log && echo o > build/o && echo mine > dirty.txt")
    return root


def sh(root: Path, command: str) -> None:
    who = {"GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e@x"}
    who |= {"GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e@x"}
    environ = {**os.environ, **who}
    subprocess.run(["/bin/sh", "-c", command], cwd=root, check=True, env=environ)


def assert_covers(root: Path, known: Survey) -> None:
    """Whatever differs from the last commit is known, and whatever else is known as committed has
    that content."""
    found = survey(root)
    assert (known.head, known.branch, known.stashes) == (found.head, found.branch, found.stashes)
    there = {path for path in found.dirty if os.path.islink(path) or os.path.isfile(path)}
    tracked = known.tracked or {}
    assert there <= known.dirty | {path for path in tracked if not is_changed(root, tracked, path)}
    for path in tracked.keys() - known.dirty:
        assert not is_changed(root, tracked, path)


def is_changed(root: Path, tracked: Mapping[str, Tracked], path: str) -> bool:
    words = ["git", "cat-file", "blob", tracked[path].object_id]
    said = subprocess.run(words, cwd=root, capture_output=True, check=True)
    return not os.path.isfile(path) or Path(path).read_bytes() != said.stdout


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN.keys())
def test_all_changes_between_commands_are_known(root: Path, between: str) -> None:
    repositories = Repositories()
    repositories.look(root)
    sh(root, between)
    assert_covers(root, repositories.look(root))


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN.keys())
def test_earlier_work_comes_back_or_is_named(root: Path, between: str) -> None:
    kept = opened(root)
    run(kept, root, "true")
    sh(root, between)
    before = {path: content(path) for path in listed(root)}

    run(kept, root, "git reset -q --hard HEAD && git clean -fdq && rm -f c/d/three.txt")
    undone = kept.undo()

    lost = {str(path) for path, was in before.items() if was not in (None, content(path))}
    assert lost <= {path for path, _ in undone.left_alone}


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_are_known_after_each(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    repositories = Repositories()
    for _ in range(8):
        with_errors = f"({chance.choice([*BETWEEN.values()])}) 2>/dev/null || true"
        sh(root, with_errors)
        assert_covers(root, repositories.look(root))


def test_a_watched_repository_is_not_surveyed_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories = Repositories()
    repositories.look(root)
    if root not in repositories.watched:
        pytest.skip("these files cannot be watched here")
    monkeypatch.setattr("kode.session.git.survey", lambda *given, **more: pytest.fail("surveyed"))

    sh(root, "echo mine > a/clean.txt && echo more > new.txt && git commit -qam second")
    found = repositories.look(root)

    assert {f"{root}/a/clean.txt", f"{root}/new.txt"} <= found.dirty
    assert f"{root}/out.log" not in found.dirty


@pytest.mark.parametrize("limit", ["MAX_MORE", "MAX_NAMES", "MAX_LINKED", "MAX_FOLDERS"])
def test_past_a_limit_the_repository_is_surveyed(
    root: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(watched, limit, 0)
    os.link(root / "a/one.txt", root.parent / "other name")
    repositories = Repositories()
    repositories.look(root)
    sh(root, BETWEEN["a folder made again"])
    assert_covers(root, repositories.look(root))
    sh(root, BETWEEN["a new file"])
    assert_covers(root, repositories.look(root))


def test_files_of_another_machine_are_surveyed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "is_local", lambda folder: False)
    repositories = Repositories()
    repositories.look(root)
    assert not repositories.watched
    sh(root, BETWEEN["an edit of a committed file"])
    assert_covers(root, repositories.look(root))


def test_a_change_through_another_hard_link_is_known(root: Path) -> None:
    other = root.parent / "other name"
    os.link(root / "a/one.txt", other)
    kept = opened(root)
    run(kept, root, "true")
    other.write_text("mine\n")
    run(kept, root, "git checkout -q a/one.txt")
    kept.undo()
    assert (root / "a/one.txt").read_text() == "mine\n"


def test_a_lost_count_is_made_up_by_a_survey(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repositories = Repositories()
    before = repositories.look(root)
    monkeypatch.setattr("kode.session.inotify.Folders.changes", lambda self: None)
    sh(root, BETWEEN["an edit of a committed file"])
    after, changed = repositories.since(before)
    assert f"{root}/a/clean.txt" in changed
    assert_covers(root, after)


def test_commands_side_by_side_each_see_their_changes(root: Path) -> None:
    repositories = Repositories()
    first = repositories.look(root)
    sh(root, "echo 1 > a/clean.txt")
    second = repositories.look(root)
    sh(root, "echo 2 > a/one.txt")

    assert set(repositories.since(second)[1]) == {f"{root}/a/one.txt"}
    assert {f"{root}/a/clean.txt", f"{root}/a/one.txt"} <= set(repositories.since(first)[1])


def opened(root: Path) -> Checkpoints:
    folder = root.parent / "checkpoints"
    return Checkpoints(folder=folder, contents=contents_in(folder), roots=(root,))


def run(kept: Checkpoints, root: Path, command: str) -> None:
    record = kept.begin_command(1, AtStake(discarded=(str(root),)))
    assert not record.problem
    sh(root, command)
    kept.end_command(1, record)
    kept.end_turn()


def listed(root: Path) -> list[Path]:
    """The files that git tracks or would add, outside nested repositories."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(words, cwd=root, capture_output=True, check=True).stdout
    return [root / name for name in os.fsdecode(out).split("\0")[:-1]]


def content(path: Path) -> bytes | str | None:
    if path.is_symlink():
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else None
