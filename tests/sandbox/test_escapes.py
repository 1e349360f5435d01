"""Ways out of the sandbox that somebody would try, each tried for real."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kode.tools.sandbox import Sandbox, open_sandbox

from kode.tools import sandbox_git
from tests.tools.sandboxed import KINDS, Kind, Run, opened, python, ran


@pytest.fixture
def outside() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the same user, with a secret in its environment."""
    with subprocess.Popen(["sleep", "60"], env={"CANARY": "canary-value"}) as process:
        yield process
        process.kill()


def tried(*lines: str) -> str:
    """Runs each line by itself; prints those that did not fail."""
    return python(
        "import ctypes, fcntl, os, socket\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def done(result):\n"
        "    if result < 0: raise OSError\n"
        "    return True\n"
        f"for line in {lines!r}:\n"
        "    try: exec(line); print('DID', line)\n"
        "    except OSError: pass\n"
        "print('tried')\n"
    )


def assert_all_fail(run: Run, *lines: str) -> None:
    done = run(tried(*lines))
    assert done.out == "tried\n", done.out + done.err


def test_other_processes_cannot_be_looked_into(
    run: Run, outside: "subprocess.Popen[bytes]"
) -> None:
    pid = outside.pid
    assert_all_fail(
        run,
        f"done(libc.ptrace(16, {pid}, 0, 0))",
        f"open('/proc/{pid}/mem', 'rb')",
        f"open('/proc/{pid}/environ', 'rb').read()",
        f"os.listdir('/proc/{pid}/root')",
        f"os.readlink('/proc/{pid}/fd/0')",
        f"os.kill({pid}, 0)",
        f"done(libc.prlimit({pid}, 7, None, None))",
        f"os.pidfd_open({pid}); done(libc.syscall(438, os.pidfd_open({pid}), 0, 0))",
    )


def test_the_kernel_is_not_asked_for_what_leads_out(run: Run) -> None:
    assert_all_fail(
        run,
        "done(libc.syscall(425, 8, ctypes.create_string_buffer(120)))",  # io_uring
        "done(libc.unshare(0x10000000))",  # a user namespace
        "done(libc.syscall(250, 0, -3, 1, 0, 0))",  # the keyring of the session
        "done(libc.chroot(b'/'))",
        "done(libc.sethostname(b'x', 1))",
        f"done(libc.setuid({os.getuid() + 1}))",
        "os.mknod('disk', 0o60600, os.makedev(254, 0))",
        "fcntl.ioctl(os.openpty()[0], 0x5412, b'x')",  # typing into a terminal
    )


def test_what_belongs_to_the_machine_stays(run: Run) -> None:
    paths = (
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/power/state",
        "/dev/kmsg",
    )
    assert_all_fail(run, *(f"os.open({path!r}, os.O_WRONLY)" for path in paths))
    assert_all_fail(run, "open('/etc/shadow').read(1) or 1 / 0", "open('/proc/kcore').read(1)")


def test_a_datagram_pair_cannot_be_pointed_at_a_socket_outside(run: Run, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.setblocking(False)
        pair = "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"
        assert_all_fail(
            run,
            f"{pair}; a.sendto(b'x', {str(tmp_path / 's')!r})",
            f"{pair}; a.connect({str(tmp_path / 's')!r})",
            "socket.socketpair(30, socket.SOCK_STREAM)",
            "socket.socket(40, socket.SOCK_STREAM)",
            "socket.socket(17, socket.SOCK_RAW)",
        )
        with pytest.raises(BlockingIOError):
            listening.recv(1)


def test_a_pipe_outside_cannot_be_written_to(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert_all_fail(run, f"os.open({str(pipe)!r}, os.O_RDWR | os.O_NONBLOCK)")


def test_a_file_outside_is_neither_linked_in_nor_emptied(run: Run, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    assert_all_fail(
        run,
        f"os.link({str(theirs)!r}, 'linked')",
        f"os.rename({str(theirs)!r}, 'renamed')",
        f"os.truncate({str(theirs)!r}, 0)",
        f"os.open({str(theirs)!r}, os.O_RDONLY | os.O_TRUNC) and open('here').read()",
    )
    assert theirs.read_text() == "theirs"


def test_nothing_is_inherited_but_the_three_streams(run: Run) -> None:
    assert run("ls /proc/self/fd").out.split() == ["0", "1", "2", "3"]  # 3: the folder it lists


def test_temporary_files_of_others_are_not_seen(run: Run, made: Sandbox) -> None:
    beside = Path("/tmp/kode-test-of-others")
    beside.write_text("theirs")
    try:
        done = run("cat /tmp/kode-test-of-others; ls /tmp /var/tmp")
    finally:
        beside.unlink()
    assert "theirs" not in done.out
    assert "kode-test-of-others" not in done.out


def test_the_network_of_the_machine_is_reached_only_when_allowed(home: Path, work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = (
            f"socket.create_connection(('127.0.0.1', {listening.getsockname()[1]}), 2).close()"
        )
        for kind in KINDS:
            allowed = opened(home, work, network=True)
            if allowed.fault(kind):
                continue
            command = ("/bin/bash", "-c", tried(connect))
            reached = ran(allowed.command(kind, command), work).out
            held = ran(allowed.command(kind, command, network=False), work).out
            assert ("DID" in reached, held) == (True, "tried\n")


def test_what_runs_unasked_has_no_network_whatever_the_settings_say(home: Path, work: Path) -> None:
    made = opened(home, work, network=True)
    if made.standing().kind == "none":
        pytest.skip(made.standing().why)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = (
            f"socket.create_connection(('127.0.0.1', {listening.getsockname()[1]}), 2).close()"
        )
        command = ("/bin/bash", "-c", tried(connect))
        assert "DID" in ran(made.wrap(command, None), work).out
        assert ran(made.wrap(command, False), work).out == "tried\n"


def test_servers_and_clients_within_one_command_find_each_other(made: Sandbox, work: Path) -> None:
    if made.fault("bubblewrap"):
        pytest.skip(made.fault("bubblewrap"))
    serve = "import socket; s = socket.create_server(('127.0.0.1', 0)); "
    serve += "socket.create_connection(s.getsockname()); print('met', s.accept()[0].fileno() > 0)"
    assert ran(made.wrap(("/bin/bash", "-c", python(serve)), True), work).out == "met True\n"


@pytest.mark.parametrize("kind", KINDS)
def test_paths_and_limits_are_in_no_argument_list(made: Sandbox, kind: Kind) -> None:
    wrapped = made.command(kind, ("/bin/true",))
    wrapped.settle()
    shown = "\n".join(wrapped.argv)
    assert str(made.ground.kode_home) not in shown
    assert ".ssh" not in shown


def test_links_a_command_made_lead_no_later_one_out(run: Run, home: Path, work: Path) -> None:
    names = [".vscode", ".github", ".husky", ".git/modules", ".git/worktrees", ".git/info"]
    run("rm -rf .git/info; " + "; ".join(f"ln -s {home}/.ssh {name}" for name in names))
    run(f"ln -s {home}/.ssh/id_rsa .envrc; ln -s ../../.ssh/id_rsa .git/config.worktree")
    done = run("cat .envrc .git/config.worktree */* .*/* .git/*/*; echo over >> .envrc; ls -a ~")
    assert "PRIVATE" not in done.out
    assert (home / ".ssh" / "id_rsa").read_text() == "PRIVATE"


def test_a_link_that_appears_after_the_look_is_not_followed(
    run: Run, home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "credentials.toml").write_text("CRATES-KEY")
    run("ln -s ../.cargo .vscode; rm -rf .git/info; mkdir .git/modules; cd .git/modules; "
        "mkdir x; echo > x/HEAD; rm -rf x; ln -s ../../../.cargo x")  # fmt: skip
    again = Run(opened(home, work), run.kind)
    monkeypatch.setattr(sandbox_git, "is_plain", os.path.lexists)

    done = again("cat .vscode/* ~/.cargo/* .git/modules/x/*; echo x > ~/.cargo/planted")

    assert "CRATES-KEY" not in done.out
    assert not (home / ".cargo" / "planted").exists()


def test_a_folder_of_work_that_became_a_link_is_not_worked_in(run: Run, home: Path) -> None:
    outer = home / "outer"
    (outer / "inner").mkdir(parents=True)
    made = open_sandbox(
        cwd=outer,
        roots=(outer, outer / "inner"),
        repository=None,
        kode_home=home / ".kode",
        outputs=home / ".kode" / "outputs",
        network=False,
    )
    here = Run(made, run.kind)
    assert here("mv inner gone; ln -s ../.ssh inner").code == 0
    try:
        done = here("cat inner/id_rsa; echo x > inner/planted")
    except OSError as error:
        assert "inner" in str(error)
    else:
        assert "PRIVATE" not in done.out
    assert os.listdir(home / ".ssh") == ["id_rsa"]


def test_programs_that_a_person_has_on_their_path_are_seen(
    run: Run, home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bin").mkdir()
    program = home / "bin" / "mine"
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:{home}:{os.environ['PATH']}")
    (work / "other").mkdir()
    again = Run(opened(home, work / "other"), run.kind)
    assert again("mine").out == "mine\n"
    assert "PRIVATE" not in again("cat ~/.ssh/id_rsa").out


def test_settings_of_git_with_a_key_in_them_are_not_shown(home: Path, work: Path) -> None:
    url = "https://me:hush-hush@host.test/"
    (home / ".gitconfig").write_text(f'[url "{url}"]\n\tinsteadOf = https://host.test/\n')
    for kind in KINDS:
        made = opened(home, work)
        if not made.fault(kind):
            command = made.command(kind, ("/bin/cat", str(home / ".gitconfig")))
            assert "hush-hush" not in ran(command, work).out


def test_a_folder_with_very_many_entries_costs_and_shows_nothing(home: Path, work: Path) -> None:
    made = opened(home, work)
    if made.fault("landlock"):
        pytest.skip(made.fault("landlock"))
    crowd = home.parent / "crowd"
    crowd.mkdir()
    for at in range(3000):
        (crowd / f"a-rather-long-name-of-a-file-that-lies-beside-the-home-{at}").touch()
    hidden = crowd / "home"
    hidden.mkdir()
    made = opened(hidden, work)
    assert made.fault("landlock") == ""
    assert ran(made.command("landlock", ("/bin/ls", str(crowd))), work).out == ""


def test_a_file_to_keep_is_the_same_after_every_command(run: Run, home: Path, work: Path) -> None:
    folder = work / "given"
    folder.mkdir()
    files = (folder / "a", folder / "b")
    for file in files:
        file.write_text("given")
    again = Run(opened(home, work, kept=files), run.kind)
    commands = (
        "echo forged > given/a",
        "rm given/b",
        "mv given gone",
        "rm -rf given; ln -s ~/.ssh given",
        "rm -rf given; echo > given",
    )
    for command in commands:
        again(command)
        assert [file.read_text() for file in files] == ["given", "given"], command
    assert os.listdir(home / ".ssh") == ["id_rsa"]
