"""What is saved before a command on the host, and how undo brings it back: with real git."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kode.undo.journal import Step
from kode.undo.undo import Undo
from tests.needs import skip_without
from tests.undo.changes import tree, turn_id, undo_in


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Committed: clean.py, run.sh; changed: a.py; staged: b.py; untracked: new.txt; ignored:
    out.log and built/; an empty folder."""
    skip_without("git")
    root = tmp_path.resolve() / "repo"
    (root / "built").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / ".gitignore").write_text("*.log\nbuilt/\n")
    for name in ("a.py", "b.py", "clean.py", "run.sh"):
        (root / name).write_text(f"{name} = 1\n")
    (root / "run.sh").chmod(0o755)
    git(root, "init", "-q", "-b", "main")
    with (root / ".git" / "config").open("a") as config:
        config.write("[user]\n\tname = n\n\temail = e@x\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "a.py").write_text("a = 2\n")
    (root / "b.py").write_text("b = 2\n")
    git(root, "add", "b.py")
    for name in ("new.txt", "out.log", "built/x"):
        (root / name).write_text(f"{name}\n")
    return root


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A project without git."""
    root = tmp_path.resolve() / "plain"
    (root / "src").mkdir(parents=True)
    (root / "src" / "b.sh").write_text("b\n")
    (root / "src" / "link").symlink_to("b.sh")
    (root / "notes.md").write_text("n\n")
    return root


def git(root: Path, *words: str) -> str:
    words = ("git", *words)
    return subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout


def opened(root: Path, **limits: int) -> Undo:
    return replace(undo_in(root.parent / "undo", **limits), roots=(root,))


def run(root: Path, command: str, *writes: str) -> Undo:
    """A turn with one command."""
    undo = opened(root)
    backup = undo.begin(turn_id(1), writes=[str(root / name) for name in writes])
    subprocess.run(["/bin/sh", "-c", command], cwd=root, check=True, capture_output=True)
    undo.end(backup)
    return undo


def before(root: Path, *writes: Path | str, **limits: int) -> Step:
    return opened(root, **limits).begin(turn_id(1), writes=[*map(str, writes)])


@pytest.mark.parametrize(
    "command",
    [
        "git reset --hard",
        "git checkout -f",
        "git stash -u && git stash drop",
        "git clean -fdq",
        "git clean -fdqx -e built",
        "git rm -qrf . && rm -rf empty",
        "git add -A && git commit -qm second && echo 3 > clean.py && rm a.py",
        "git checkout -q --orphan other && git rm -qrf .",
        "rm clean.py out.log; mkdir -p x/y/z; echo 1 > x/y/new.log; echo 1 > more.txt",
        "rm clean.py; mkdir clean.py; echo 1 > clean.py/x; rm -r empty; ln -s a.py empty",
        "chmod -x run.sh; chmod +x clean.py; chmod 0 empty",
        "mkdir dist; echo dist/ >> .gitignore; mkdir dist/js; echo 1 > dist/js/app.js",
        "mv clean.py moved.py; echo 1 > 'li\nne'; git add moved.py",
        "printf '*.py -text\\n' > .gitattributes; echo 1 >> clean.py",
        "git stash -q; git checkout -qb x; echo x > clean.py; git commit -qam x; git checkout -q "
        "main; echo y > clean.py; git commit -qam y; git merge -q x; git ls-files -u | grep -q .",
        "git rm -q --cached clean.py; echo 2 > clean.py; echo clean.py >> .gitignore",
    ],
)
def test_effects_of_a_command_are_undone_and_redone(repo: Path, command: str) -> None:
    was = tree(repo)
    undo = run(repo, command)
    after = tree(repo)
    assert after != was

    assert undo.undo().left_alone == ()
    assert tree(repo) == was
    undo.redo()
    assert tree(repo) == after


def test_ignored_folders_and_nested_repositories_are_let_be(repo: Path) -> None:
    git(repo, "init", "-q", "nested")
    (repo / "nested" / "file").write_text("theirs")
    undo = run(repo, "echo > .gitignore; echo 2 > built/x; rm -rf nested/.git; echo 2 > a.py")
    undo.undo()

    assert (repo / "nested" / "file").read_text() == "theirs"
    assert (repo / "built" / "x").read_text() == "2\n"
    assert (repo / "a.py").read_text() == "a = 2\n"


def test_files_that_a_line_names_come_back_exactly(repo: Path) -> None:
    (repo / "built" / "empty").mkdir()
    was = tree(repo)
    undo = run(repo, "rm -r built; chmod 700 clean.py", "built", "clean.py")
    assert "built" not in tree(repo)
    undo.undo()
    assert tree(repo) == was


def test_a_submodule_is_surveyed_too(repo: Path) -> None:
    from kode.git import git_folders

    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repo), "sub")
    (repo / "sub" / "a.py").write_text("mine")
    undo = replace(opened(repo), git=git_folders([repo]))
    backup = undo.begin(turn_id(1), writes=())
    (repo / "sub" / "a.py").write_text("discarded")
    (repo / "sub" / "clean.py").unlink()
    undo.end(backup)
    undo.undo()
    assert (repo / "sub" / "a.py").read_text() == "mine"
    assert (repo / "sub" / "clean.py").exists()


def test_line_ends_come_back_as_in_the_working_tree(repo: Path) -> None:
    (repo / ".gitattributes").write_text("*.py eol=crlf\nrun.sh filter=lfs\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "second")
    (repo / "clean.py").write_bytes(b"clean.py = 1\r\n")
    git(repo, "status")
    undo = run(repo, "echo 2 > clean.py; echo 2 > run.sh")

    ((path, why),) = undo.undo().left_alone

    assert (repo / "clean.py").read_bytes() == b"clean.py = 1\r\n"
    assert (path, "program" in why) == (str(repo / "run.sh"), True)


def test_a_survey_touches_neither_tree_nor_index_nor_refs(repo: Path) -> None:
    was = {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()}
    undo = run(repo, "true")
    assert was == {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()}
    assert undo.undo().turn is None


@pytest.mark.parametrize("command", ["git reset -q --hard HEAD~1", "git checkout -qb o HEAD~1"])
def test_a_branch_that_is_not_moved_back_is_named(repo: Path, command: str) -> None:
    git(repo, "stash", "-q")
    (repo / "clean.py").write_text("c = 2\n")
    git(repo, "commit", "-aqm", "second")
    was, head = tree(repo), git(repo, "rev-parse", "HEAD")

    (note,) = run(repo, command).undo().step.heads

    assert tree(repo) == was
    assert note.startswith(f"main was at {head[:12]}")
    assert git(repo, "rev-parse", "HEAD") != head


@pytest.mark.parametrize("how", ["elsewhere", "broken", "foreign"])
def test_a_repository_that_git_cannot_read_is_walked(
    repo: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = repo.parent / "elsewhere" / "secret"
    secret.parent.mkdir()
    secret.write_text("x")
    if how == "elsewhere":
        git(repo, "config", "core.worktree", str(secret.parent))
    elif how == "broken":
        (repo / ".git" / "HEAD").write_text("?")
    else:
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    was = tree(repo)

    undo = run(repo, "rm -r a.py clean.py empty; echo 1 > more")
    undo.undo()

    assert tree(repo) == was
    assert not [path for path in before(repo).before if "secret" in path]


def test_links_are_saved_with_what_they_lead_to(plain: Path) -> None:
    other = plain.parent / "other"
    other.mkdir()
    (other / "a").write_text("x")
    (plain / "out").symlink_to("../other/a")
    os.mkfifo(plain / "pipe")  # nobody waits for it
    step = before(plain, plain / "src" / "link", plain / "out", other)
    assert {str(plain / "src" / name) for name in ("link", "b.sh")} <= step.before.keys()
    assert step.before[str(plain / "out")].state == "link:../other/a"
    assert not {str(other / "a"), str(plain / "pipe")} & step.before.keys()
    assert str(other) in step.problem


def test_a_disk_that_takes_nothing_is_a_problem(plain: Path) -> None:
    (plain.parent / "undo").write_text("in the way")
    step = before(plain)
    assert step.problem
    assert str(plain / "notes.md") in step.not_saved


def test_a_repository_without_a_commit_is_undone(plain: Path) -> None:
    skip_without("git")
    git(plain, "init", "-q")
    was = tree(plain)

    run(plain, "rm notes.md; echo 1 > src/b.sh").undo()

    assert tree(plain) == was


def test_files_are_saved_up_to_half_of_the_store(plain: Path) -> None:
    for number in range(3):
        (plain / f"{number}.bin").write_bytes(bytes([number]) * 600)
    step = before(plain, max_bytes=2_000)
    assert len(step.not_saved) == 2
