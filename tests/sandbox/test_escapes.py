"""Ways out of the sandbox that somebody would try, each tried for real: in every kind that this
machine has."""

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kode.sandbox.sandbox import Sandbox
from tests.sandbox.conftest import kinds_of
from tests.sandbox.sandboxed import Run, attempted_in, begun, fault, opened, ran

pytestmark = [pytest.mark.slow, pytest.mark.sampled(of=3)]

TRY = """
import ctypes, fcntl, os, signal, socket, struct, subprocess, time
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
def done(result):
    if result < 0: raise OSError(ctypes.get_errno(), 'failed')
    return True
def ends_well(*words): done(-subprocess.run(words, capture_output=True).returncode)
for line in LINES:
    try: exec(line); print('DID', line)
    except (OSError, PermissionError): pass
print('tried')
"""


def assert_all_fail(run: Run, *lines: str) -> None:
    """Runs each line of Python by itself: every one has to fail."""
    done = run(run.python(TRY.replace("LINES", repr(lines))))
    assert done.out == "tried\n", done.out + done.err


@pytest.fixture
def outside(run: Run) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the same user, with a secret in its environment."""
    with subprocess.Popen(["sleep", "60"], env={"CANARY": "canary-value"}) as process:
        yield process
        process.kill()


@pytest.fixture
def theirs(run: Run, place: Path) -> Path:
    """A file outside of the project that belongs to the user."""
    file = place / "theirs"
    file.write_text("theirs")
    return file


def state(path: Path) -> tuple[object, ...]:
    status = os.lstat(path)
    return (
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_nlink,
        path.read_bytes(),
        sorted(os.listxattr(path)),
    )


def test_a_file_outside_is_not_changed_in_any_way(run: Run, theirs: Path) -> None:
    before = state(theirs)
    name = repr(str(theirs))
    assert_all_fail(
        run,
        f"os.open({name}, os.O_WRONLY)",
        f"os.open({name}, os.O_RDWR)",
        f"os.truncate({name}, 0)",
        f"os.chmod({name}, 0o777)",
        f"os.fchmod(os.open({name}, os.O_RDONLY), 0o777)",
        f"done(call(452, -100, {name}.encode(), 0o777, 0))",  # fchmodat2
        f"os.chown({name}, os.getuid(), os.getgid())",
        f"os.utime({name}, (1, 1))",
        f"os.setxattr({name}, 'user.x', b'x')",
        f"os.remove({name})",
        f"os.rename({name}, 'renamed')",
        f"os.rename({name}, {name} + '2')",
        f"os.link({name}, 'linked')",
        f"os.link({name}, os.environ['TMPDIR'] + '/linked')",
        f"os.symlink('x', {name} + '3')",
        f"os.mkdir({name} + '4')",
        f"os.mkfifo({name} + '5')",
        f"os.mknod({name} + '6')",
        f"open({name} + '7', 'w')",
        f"os.open({name}, os.O_RDONLY | os.O_TRUNC)",
    )
    assert state(theirs) == before
    assert sorted(os.listdir(theirs.parent)) == ["home", "theirs"]


def test_flags_of_files_outside_stay(run: Run, theirs: Path) -> None:
    """`chattr` needs no right to write: its calls are on a file opened to be read."""
    name = repr(str(theirs))
    set_flags, set_more, set_version, btrfs = 0x40086602, 0x401C5820, 0x40087602, 0x5000940E
    assert_all_fail(
        run,
        *(
            f"fcntl.ioctl(os.open({name}, os.O_RDONLY), {number:#x}, bytes(40))"
            for number in (set_flags, set_more, set_version, btrfs)
        ),
    )


LINKS = (
    "ln -s {0} link; echo x >> link; ln {0} hard; echo x >> hard; ln -s {1} folder; "
    "echo x > folder/planted; rm folder/theirs; mv link folder/link; cp -a /bin/true folder/",
    # one that flips while it is written through
    "mkdir -p $TMPDIR/in; touch $TMPDIR/in/theirs; "
    "(while :; do ln -sfn {1} $TMPDIR/l; ln -sfn in $TMPDIR/l; done) & "
    "for i in $(seq 300); do echo x >> $TMPDIR/l/theirs; done 2>/dev/null; kill %1",
    # one from outside: only the copy changes
    "echo x >> same; chmod 777 same; truncate -s 0 same",
)


@pytest.mark.parametrize("command", LINKS)
def test_links_lead_to_nothing_that_can_be_changed(run: Run, theirs: Path, command: str) -> None:
    os.link(theirs, run.work / "same")
    before = state(theirs)
    assert run(command.format(theirs, theirs.parent) + "; true").code == 0
    assert state(theirs) == before
    assert sorted(os.listdir(theirs.parent)) == ["home", "theirs"]


def test_a_pipe_outside_cannot_be_written_to(run: Run, place: Path) -> None:
    pipe = place / "pipe"
    os.mkfifo(pipe, 0o666)
    assert_all_fail(run, f"os.open({str(pipe)!r}, os.O_RDWR | os.O_NONBLOCK)")


def test_the_project_itself_stays_as_it_is(run: Run) -> None:
    (run.work / "kept").write_text("kept")
    git = sorted(str(path) for path in (run.work / ".git").rglob("*"))
    run("echo x > made; rm kept; rm -rf .git/*; mkdir d; chmod 000 .; mv ../work ../moved")
    assert (run.work / "kept").read_text() == "kept"
    assert not (run.work / "made").exists()
    assert sorted(str(path) for path in (run.work / ".git").rglob("*")) == git


def test_only_the_three_streams_are_inherited(run: Run) -> None:
    assert run("ls /proc/self/fd").out.split() == ["0", "1", "2", "3"]  # 3: the folder it lists


def test_a_descriptor_that_was_open_before_is_not_there(made: Sandbox, work: Path) -> None:
    secret = os.open(work.parent / ".ssh" / "id_rsa", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        for kind in kinds_of(made):
            done = attempted_in(
                made, kind, f"cat <&{secret}; ls -l /proc/self/fd; ls /proc/self/fd"
            )
            assert "PRIVATE" not in done.out
            assert "id_rsa" not in done.out
    finally:
        os.close(secret)


def test_the_layers_place_is_gone_when_the_command_starts(run_layered: Run) -> None:
    done = run_layered("ls -la /dev/.kode; cat /proc/self/mountinfo; ls /proc/*/fd")
    assert "upper" not in done.out.replace("upperdir=upper", "")
    assert "/dev/.kode" not in done.out


def test_other_processes_are_neither_looked_into_nor_ended(
    run: Run, outside: "subprocess.Popen[bytes]"
) -> None:
    pid = outside.pid
    priority = os.getpriority(os.PRIO_PROCESS, pid)
    assert_all_fail(
        run,
        f"done(libc.ptrace(16, {pid}, 0, 0))",
        f"open('/proc/{pid}/mem', 'rb')",
        f"open('/proc/{pid}/environ', 'rb').read()",
        f"os.listdir('/proc/{pid}/root')",
        f"os.listdir('/proc/{pid}/cwd')",
        f"os.readlink('/proc/{pid}/fd/0')",
        f"os.pidfd_open({pid}); done(call(438, os.pidfd_open({pid}), 0, 0))",  # pidfd_getfd
        f"os.kill({pid}, 0)",
        f"os.kill({pid}, 9)",
        f"signal.pidfd_send_signal(os.pidfd_open({pid}), 9)",
        f"done(libc.prlimit({pid}, 7, None, None))",
        f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
        f"os.sched_setaffinity({pid}, [0])",
        f"os.sched_setscheduler({pid}, os.SCHED_BATCH, os.sched_param(0))",
        f"done(call(251, 1, {pid}, 0x6000))",  # ioprio_set
    )
    run("kill -9 -1; killall sleep; pkill sleep")
    assert outside.poll() is None
    assert os.getpriority(os.PRIO_PROCESS, pid) == priority


def test_the_process_that_the_sandbox_begins_with_shows_nothing(run: Run) -> None:
    (run.work / ".env").write_text("KEY=canary-value")
    done = run(
        "cat /proc/1/cwd/.env /proc/1/root$PWD/.env /proc/1/environ /proc/*/cwd/.env; "
        "ls /proc/1/fd; for f in /proc/1/fd/* /proc/self/fd/*; do timeout 0.2 head -c 99 $f; done"
    )
    assert "canary-value" not in done.out
    assert "SECRET" not in done.out


def test_resources_shared_between_processes_stay_unchanged(run: Run) -> None:
    """System V memory, semaphores and queues, which belong to whoever knows their number."""
    made = subprocess.run(["ipcmk", "-M", "4096"], capture_output=True, text=True, check=True)
    number = made.stdout.split()[-1]
    try:
        assert_all_fail(
            run,
            f"done(call(30, {number}, 0, 0))",  # shmat
            f"done(call(31, {number}, 0, 0))",  # shmctl: remove it
            "done(call(66, 0, 0, 0, 0))",  # semctl
            "done(call(71, 0, 0, 0))",  # msgctl
        )
        run("ipcrm -a")
        listed = subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
        assert f" {number} " in listed
    finally:
        subprocess.run(["ipcrm", "-m", number], check=False)


def test_the_command_has_no_power_in_any_set(run: Run) -> None:
    done = run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    values = dict(line.split(":\t") for line in done.out.splitlines())
    sets = {name: int(value, 16) for name, value in values.items() if name.startswith("Cap")}
    bound = sets.pop("CapBnd")
    assert set(sets.values()) == {0}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")
    assert bound == 0 or os.getuid() != 0, "root gets back what the bounding set leaves"


OPENED = (
    "/proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger "
    "/proc/self/oom_score_adj /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled "
    "/sys/fs/cgroup/cgroup.procs /dev/kmsg /dev/mem /dev/vda /dev/sda"
).split()
FAILS = {
    "powers": (
        "done(libc.unshare(0x10000000))",  # a user namespace
        "done(libc.unshare(0x00020000))",
        "done(call(56, 0x10000000 | 17, 0, 0, 0, 0))",  # clone
        "done(call(435, struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64))",  # clone3
        "done(libc.setns(os.open('/proc/1/ns/user', os.O_RDONLY), 0))",
        "done(libc.setns(os.open('/proc/self/ns/user', os.O_RDONLY), 0))",
        "done(libc.capset(struct.pack('Ii', 0x20080522, 0), struct.pack('6I', *[2**32 - 1] * 6)))",
        "done(libc.prctl(47, 2, 21, 0, 0))",  # ambient
        "os.setuid(os.getuid() + 1)",
        "os.setgroups([4])",
        "open('/proc/self/uid_map', 'w').write('0 0 1')",
        "done(libc.chroot(b'/'))",
        "os.mknod('disk', 0o60600, os.makedev(254, 0))",
        "os.mknod(os.environ['TMPDIR'] + '/disk', 0o60600, os.makedev(254, 0))",
        *(f"ends_well(*'{o}'.split())" for o in ("unshare -Ur true", "unshare -m true")),
        *(f"ends_well(*'{o}'.split())" for o in ("sudo -n true", "su -c true")),
    ),
    "the kernel": (
        "done(call(425, 8, ctypes.create_string_buffer(120)))",  # io_uring_setup
        "done(call(321, 0, ctypes.create_string_buffer(120), 120))",  # bpf
        "done(call(298, ctypes.create_string_buffer(120), 0, -1, -1, 0))",  # perf_event_open
        "done(call(323, 1))",  # userfaultfd
        "done(call(250, 0, -3, 1, 0, 0))",  # keyctl: the keyring of the session
        "done(call(248, b'user', b'kode', b'x', 1, -3))",  # add_key
        "done(call(304, -100, bytes(140), 0))",  # open_by_handle_at
        "done(call(300, 0, 0))",  # fanotify_init
        "done(libc.sethostname(b'x', 1))",
        "done(call(169, 0xfee1dead, 672274793, 0, None))",  # reboot: Ctrl-Alt-Del off
        "done(call(175, b'', 0, b''))",  # init_module
        "done(call(246, 0, 0, 0, 0))",  # kexec_load
        "done(call(167, b'/nowhere', 0))",  # swapon
        "done(call(163, b'/nowhere'))",  # acct
        "done(call(103, 5, 0, 0))",  # syslog: clear it
    ),
    # Set to what it is, should it be possible after all.
    "the clock": (
        "t = time.time_ns(); done(call(227, 0, struct.pack('qq', t // 10**9, t % 10**9)))",
        "done(call(164, struct.pack('qq', int(time.time()), 0), None))",
        "time.clock_settime(0, time.time())",
        "ends_well('date', '-s', f'@{int(time.time())}')",
    ),
    "the machine": (
        *(f"os.open({path!r}, os.O_WRONLY)" for path in OPENED),
        "open('/etc/shadow').read(1) or done(-1)",
        "open('/proc/kcore', 'rb').read(1)",
        "open('/dev/vda', 'rb').read(1)",
        "open('/dev/mem', 'rb').read(1)",
        "os.open('/dev/tty', os.O_RDWR)",
    ),
    "sockets": (
        "socket.socket(40, socket.SOCK_STREAM)",  # vsock
        "socket.socket(17, socket.SOCK_RAW)",  # packet
        "socket.socket(38, socket.SOCK_SEQPACKET)",  # alg
        "socket.socket(44, socket.SOCK_RAW)",  # xdp
        "socket.socket(31, socket.SOCK_RAW)",  # bluetooth
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "socket.socketpair(30, socket.SOCK_STREAM)",  # tipc
        "socket.socket(16, 3, 9).bind((0, 1))",  # audit
        "socket.create_connection(('192.0.2.1', 80), 0.5)",
    ),
}


@pytest.mark.parametrize("lines", FAILS.values(), ids=FAILS)
def test_calls_that_lead_out_of_the_sandbox_fail(run: Run, lines: tuple[str, ...]) -> None:
    assert_all_fail(run, *lines)


def test_programs_that_run_as_their_owner_run_as_the_user(run: Run) -> None:
    done = run(
        "for p in /usr/bin/su /usr/bin/passwd /usr/bin/mount; do cp $p $TMPDIR/; done; id -u"
    )
    assert done.out.split() == [str(os.getuid())]


def test_mounts_stay(run: Run) -> None:
    (run.work / ".env").write_text("KEY=canary-value")
    where = str(run.work)
    assert_all_fail(
        run,
        f"done(libc.umount2({where + '/.env'!r}.encode(), 0))",
        f"done(libc.umount2({where + '/.env'!r}.encode(), 2))",
        f"done(libc.umount2({where!r}.encode(), 2))",
        "done(libc.umount2(b'/tmp', 2))",
        f"done(libc.mount(None, {where!r}.encode(), None, 32 | 4096, None))",
        "done(libc.mount(b'/', b'/mnt', None, 4096, None))",
        "done(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None))",
        f"done(call(428, -100, {where!r}.encode(), 1))",  # open_tree
        f"done(call(467, -100, {where!r}.encode(), 1, 0, 0))",  # open_tree_attr
        "done(call(430, b'tmpfs', 0))",  # fsopen
        f"done(call(442, -100, {where!r}.encode(), 0, bytes(32), 32))",  # mount_setattr
        "done(call(155, b'/', b'/'))",  # pivot_root
        f"os.remove({where + '/.env'!r})",
        f"os.rename({where + '/.env'!r}, {where + '/env'!r})",
        f"os.rename('/bin/true', {where + '/.env'!r})",
        f"os.link({where + '/.env'!r}, {where + '/env'!r})",
        f"open({where + '/.env'!r}).read()",
        f"os.chmod({where + '/.env'!r}, 0o777)",
    )


def test_no_service_of_this_machine_is_reached(run: Run, place: Path) -> None:
    (place / "s").unlink(missing_ok=True)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as tcp6,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        udp.bind(("127.0.0.1", 0))
        for one, name in ((unix, f"{place}/s"), (abstract, f"\0{place}"), (datagram, f"{place}/d")):
            one.bind(name)
        for name in ("s", "d"):
            (place / name).chmod(0o777)
        unix.listen()
        abstract.listen()
        for one in (tcp, tcp6, udp, unix, abstract, datagram):
            one.setblocking(False)
        stream, pair = "socket.socket(socket.AF_UNIX)", "socket.socketpair(1, 2)[0]"
        assert_all_fail(
            run,
            f"socket.create_connection({tcp.getsockname()!r}, 2)",
            f"socket.create_connection({tcp6.getsockname()[:2]!r}, 2)",
            f"{stream}.connect({f'{place}/s'!r})",
            f"{stream}.connect({f'{chr(0)}{place}'!r})",
            f"{pair}.connect({f'{place}/d'!r})",
            f"{pair}.sendto(b'x', {f'{place}/d'!r})",
            f"{pair}.sendmsg([b'x'], [], 0, {f'{place}/d'!r})",
            "done(call(41, 1, 2, 0))",
            f"s = socket.socket(2, 1); s.sendto(b'x', 0x20000000, {tcp.getsockname()!r})",
        )
        run(run.python(f"import socket; s = socket.socket(2, 2); "
                       f"s.sendto(b'x', {udp.getsockname()!r})"))  # fmt: skip
        for one in (tcp, tcp6, unix, abstract):
            with pytest.raises(BlockingIOError):
                one.accept()
        for one in (udp, datagram):
            with pytest.raises(BlockingIOError):
                one.recv(1)


def test_servers_and_clients_within_one_command_find_each_other(made: Sandbox, work: Path) -> None:
    serve = "import socket; s = socket.create_server(('127.0.0.1', 0)); "
    serve += "socket.create_connection(s.getsockname()); print('met', s.accept()[0].fileno() > 0)"
    for kind in ("layered", "plain"):
        if not fault(made, kind):
            run = Run(kind, work.parent, work)
            assert attempted_in(made, kind, run.python(serve)).out == "met True\n"


def test_the_network_of_the_machine_is_reached_only_when_allowed(home: Path, work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = (
            f"import socket; socket.create_connection({listening.getsockname()!r}, 2); print(1)"
        )
        for kind in ("layered", "plain", "landlock"):
            for network in (True, False):
                run = Run(kind, home, work, more={"network": network})
                if not fault(opened(home, work), kind):
                    assert (run(run.python(connect)).out == "1\n") == network, kind


def test_a_command_cannot_type_into_a_terminal(made: Sandbox, work: Path) -> None:
    """A terminal as its standard input, as when kode is started in one, is not there at all; one of
    its own cannot be typed into either."""
    master, slave = os.openpty()
    for kind in kinds_of(made):
        run = Run(kind, work.parent, work)
        code = TRY.replace("LINES", repr((
            "fcntl.ioctl(1, 0x5412, b'x')", "fcntl.ioctl(1, 0x541c, b'x')",
            f"open({os.ttyname(slave)!r}, 'w')",
        )))  # fmt: skip
        attempt = begun(made, kind)
        wrapped = attempt.wrap(("/bin/bash", "-c", run.python(code)))
        done = subprocess.run(
            wrapped.argv, cwd=work, pass_fds=wrapped.descriptors, stdin=slave, stdout=slave,
            start_new_session=True, env={"PATH": os.environ["PATH"]}, timeout=30, check=False,
        )  # fmt: skip
        wrapped.settle()
        attempt.close()
        assert done.returncode == 0
        assert b"DID" not in os.read(master, 10_000)
    os.close(master)
    os.close(slave)


def test_temporary_files_of_others_are_not_seen(run: Run) -> None:
    name = f"kode-test-of-others-{os.getpid()}"
    beside = [Path(folder) / name for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    for path in beside:
        path.write_text("theirs")
    try:
        done = run("cat " + " ".join(map(str, beside)) + "; ls /tmp /var/tmp /dev/shm")
        run(f"echo x > /tmp/{name}; echo x > /dev/shm/{name}")
        assert [path.read_text() for path in beside] == ["theirs"] * 3
    finally:
        for path in beside:
            path.unlink()
    assert "theirs" not in done.out
    assert name not in done.out


def test_paths_and_limits_are_in_no_argument_list(made: Sandbox) -> None:
    for kind in kinds_of(made):
        attempt = begun(made, kind)
        wrapped = attempt.wrap(("/bin/true",))
        assert ran(wrapped, made.place.cwd).code == 0
        attempt.close()
        shown = "\n".join(wrapped.argv)
        assert str(made.place.home) not in shown
        assert ".ssh" not in shown


PLANTED = (
    "echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo x >> .git/config; "
    "mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/post-checkout; echo x > sub/.git/config; "
    "echo x > .envrc; echo x > AGENTS.md; mkdir -p .github/workflows .vscode; "
    "echo x > .github/workflows/ci.yml; echo x > .vscode/tasks.json; "
    "ln -s ~/.ssh/id_rsa notes.txt; mkfifo pipe; cp /bin/sh sh; chmod u+s,g+s sh; mknod dev c 0 0; "
    "setfattr -n user.overlay.opaque -v y . ; setfattr -n user.overlay.redirect -v /etc sub; true"
)


def test_objects_planted_inside_are_absent_outside(run: Run) -> None:
    before = sorted(str(path) for path in run.work.rglob("*"))
    config = (run.work / ".git" / "config").read_text()
    assert run(PLANTED).code == 0
    assert sorted(str(path) for path in run.work.rglob("*")) == before
    assert (run.work / ".git" / "config").read_text() == config


def test_only_named_files_and_links_become_real(run_layered: Run) -> None:
    done = run_layered(PLANTED)
    named = {path for path, _, ignored in done.changes if not ignored}
    assert {".git/hooks/pre-commit", ".git/config", "sub/.git/hooks/post-checkout", ".envrc",
            "sub/.git/config", "AGENTS.md", ".github/workflows/ci.yml", ".vscode/tasks.json",
            "sh"} <= named  # fmt: skip
    assert not named & {"pipe", "dev"}
    run_layered(PLANTED, apply=True)
    assert not (run_layered.work / "pipe").exists()
    mode = (run_layered.work / "sh").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_ISGID)
    marks = [name for path in run_layered.work.rglob("*") if not path.is_symlink()
             for name in os.listxattr(path)]  # fmt: skip
    assert not [name for name in marks if "overlay" in name]


def test_a_link_to_what_is_hidden_does_not_become_real(run_layered: Run) -> None:
    run_layered(
        "ln -s ~/.ssh/id_rsa a; ln -s ../.kode/config.json b; mkdir d; ln -s ../../.ssh d/c; "
        "ln -s /bin/sh fine; ln -s d also-fine",
        apply=True,
    )
    assert sorted(os.listdir(run_layered.work)) == [".git", "also-fine", "d", "fine"]
    assert os.listdir(run_layered.work / "d") == []
