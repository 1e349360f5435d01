"""Keys are not there for a command: those of the home, kode, the machine and the project."""

import os
import subprocess
from pathlib import Path

import pytest

from kode.sandbox.sandbox import Sandbox
from tests.needs import lacking, needs
from tests.sandbox.conftest import kinds_of, need
from tests.sandbox.sandboxed import KINDS, Run, attempted_in, fault, opened
from tests.workplaces import workplace

CANARY = "canary-value"

READ_ALL = (
    "cat ~/.ssh/* ~/.kode/* ~/.aws/* 2>/dev/null; find ~ . -type f -exec cat {} + 2>/dev/null; "
    "grep -rs canary ~ . ; cat .env sub/.ENV deep/er/id_ed25519 2>/dev/null; "
    "tar c . 2>/dev/null | grep -a canary; find /home /root -maxdepth 3; "
    'cp -r . "$TMPDIR/copy" 2>/dev/null; grep -rs canary "$TMPDIR"; git grep canary; git diff'
)


def put(run: Run, *names: str) -> None:
    for name in names:
        path = run.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"KEY={CANARY}\n")


def test_files_with_keys_in_the_project_show_nothing(run: Run) -> None:
    put(run, ".env", "sub/.ENV", "deep/er/id_ed25519", "a b/prod.pem", "x\ny/.env", ".ssh/config")
    put(run, ".env.local", "conf/credentials.json", ".netrc")
    assert CANARY not in run(READ_ALL).out


def test_home_kodes_folder_and_the_machines_keys_show_nothing(run: Run, home: Path) -> None:
    names = ".ssh/id_rsa .kode/config.json .aws/credentials .bash_history .config/gh/hosts.yml"
    for name in (*names.split(), "other/.env", "notes.txt", ".kode/sessions/1"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(CANARY)
    done = run(READ_ALL + f"; grep -rs canary {home}; cat /etc/shadow; ls -a ~")
    assert CANARY not in done.out
    assert "root:" not in done.out
    assert "notes.txt" not in done.out


@pytest.mark.parametrize("where", ["/srv", "/tmp", "/var/tmp"])
def test_kode_s_folder_is_hidden_wherever_it_lies(home: Path, work: Path, where: str) -> None:
    kode_home = Path(where) / f"kode-test-{os.getpid()}"
    try:
        kode_home.mkdir()
    except OSError:
        lacking(where, "not writable")
    try:
        (kode_home / "config.json").write_text(CANARY)
        from kode.sandbox.sandbox import Sandbox

        made = Sandbox(place=workplace(work, home=kode_home))
        for kind in kinds_of(made):
            done = attempted_in(made, kind, f"cat {kode_home}/*; echo x > {kode_home}/planted")
            assert CANARY not in done.out
        assert not (kode_home / "planted").exists()
    finally:
        subprocess.run(["rm", "-rf", str(kode_home)], check=True)


def test_a_key_file_that_appears_between_two_commands_is_hidden(made: Sandbox, work: Path) -> None:
    for kind in kinds_of(made):
        attempted_in(made, kind, "true")
        (work / ".env").write_text(CANARY)
        (work / "d").mkdir()
        (work / "d" / ".env").write_text(CANARY)
        assert CANARY not in attempted_in(made, kind, "cat .env d/.env").out
        (work / "was").write_text(CANARY)
        (work / "was").rename(work / "d" / "server.key")
        assert CANARY not in attempted_in(made, kind, "cat d/server.key").out
        subprocess.run(["rm", "-r", "d", ".env"], cwd=work, check=True)


def test_a_key_created_while_its_folder_is_read_hides_later(made: Sandbox, work: Path) -> None:
    """Many times, since the clock of a file system ticks slowly."""
    for at in range(50):
        folder = work / str(at)
        folder.mkdir()
        made.masked()
        (folder / ".env").write_text(CANARY)
        assert folder / ".env" in made.masked()


@needs("git")
def test_git_takes_a_hidden_file_that_it_tracks_for_unchanged(run: Run) -> None:
    put(run, ".env", "sub/.env", "src/a.py")
    env = {**os.environ, "HOME": str(run.home)}
    long_ago = (1_000_000_000, 1_000_000_000)
    for path in run.work.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, long_ago)
    for command in ("add -A", "commit -qm 1"):
        subprocess.run(["git", *command.split()], cwd=run.work, check=True, env=env)
    # As in a fresh clone: git looks into what is as new as its index.
    os.utime(run.work / ".git" / "index", long_ago)
    (run.work / "src" / "a.py").write_text("changed")
    done = run("git status --porcelain; git diff --stat; git stash list")
    assert done.out.startswith(" M src/a.py\n"), done.out + done.err
    assert ".env" not in done.out


def test_a_path_denied_by_a_rule_is_hidden_too(home: Path, work: Path) -> None:
    (work / "notes" / "deep").mkdir(parents=True)
    (work / "notes" / "deep" / "plan.txt").write_text(CANARY)
    (work / "other.txt").write_text("seen")
    for kind in KINDS:
        made = opened(home, work, denied=lambda path: "/notes" in path)
        if not fault(made, kind):
            done = attempted_in(made, kind, "cat notes/deep/plan.txt other.txt; grep -r canary .")
            assert done.out == "seen", kind


def test_a_key_saved_during_a_command_is_hidden_in_copies(made: Sandbox, work: Path) -> None:
    need(made, "layered")
    (work / ".env").write_text("OLD=old-canary")
    command = "until [ -e go ]; do sleep 0.02; done; cat .env"
    attempt_done: list[str] = []

    import threading

    thread = threading.Thread(
        target=lambda: attempt_done.append(attempted_in(made, "layered", command).out)
    )
    thread.start()
    (work / ".env.new").write_text(CANARY)
    (work / ".env.new").rename(work / ".env")
    (work / "go").touch()
    thread.join()
    assert attempt_done == [""]


def test_git_settings_that_hold_a_key_are_hidden(run: Run, home: Path) -> None:
    (home / ".gitconfig").write_text('[url "https://me:hush-hush@host.test/"]\n\tinsteadOf = x\n')
    assert "hush-hush" not in run("cat ~/.gitconfig; git config -l").out


def test_work_in_the_home_itself_still_hides_keys(home: Path) -> None:
    (home / "here").write_text("seen")
    made = opened(home, home)
    for kind in kinds_of(made):
        done = attempted_in(made, kind, "cat .ssh/id_rsa .kode/config.json here; echo x > new")
        assert done.out == "seen"
        assert not (home / "new").exists()


@pytest.mark.slow
def test_a_folder_with_very_many_entries_costs_and_shows_nothing(place: Path, work: Path) -> None:
    crowd = place / "crowd"
    crowd.mkdir()
    for at in range(3000):
        (crowd / f"a-rather-long-name-of-a-file-that-lies-beside-the-home-{at}").touch()
    (crowd / "home").mkdir()
    made = opened(crowd / "home", work)
    need(made, "landlock")
    assert attempted_in(made, "landlock", f"ls {crowd}").out == ""
