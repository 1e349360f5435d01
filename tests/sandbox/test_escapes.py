"""Ways out of the sandbox that somebody would try, each tried for real: in every kind that this
machine has. Those that a command line alone tries are in `tests/attacks`."""

import contextlib
import os
import select
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.sandboxed import Run
from tests.undo.changes import tree

pytestmark = [pytest.mark.slow, pytest.mark.sampled(of=3)]


@dataclass(frozen=True)
class Outside:
    """What is the user's outside of the sandbox, and must stay as it is."""

    state: Callable[[], tuple[object, ...]]
    variables: dict[str, Any]
    """How lines of `FAILS` call it."""


@pytest.fixture
def outside(run: Run, place: Path) -> Iterator[Outside]:
    theirs = place / "theirs"
    theirs.write_text("theirs")
    os.link(theirs, run.work / "same")
    (run.work / ".env").write_text("KEY=canary-value")
    number = done("ipcmk", "-M", "4096").split()[-1]

    def state() -> tuple[object, ...]:
        status = os.lstat(theirs)
        return (
            (status.st_mode, status.st_size, status.st_mtime_ns, status.st_nlink),
            os.listxattr(theirs),
            tree(place, but=("home",)) | tree(run.work, but=()),
            process.poll(),
            os.getpriority(os.PRIO_PROCESS, process.pid),
            f" {number} " in done("ipcs", "-m"),
            select.select(sockets, [], [], 0)[0],
        )

    with contextlib.ExitStack() as opened:
        opened.callback(done, "ipcrm", "-m", number)
        process = opened.enter_context(subprocess.Popen(["sleep", "60"], env={"CANARY": "1"}))
        opened.callback(process.kill)
        sockets = []
        for family, kind, address in (
            (socket.AF_INET, 1, ("127.0.0.1", 0)),
            (socket.AF_INET6, 1, ("::1", 0)),
            (socket.AF_INET, 2, ("127.0.0.1", 0)),
            (socket.AF_UNIX, 1, f"{place}/s"),
            (socket.AF_UNIX, 1, f"\0{place}"),
            (socket.AF_UNIX, 2, f"{place}/d"),
        ):
            sockets.append(opened.enter_context(socket.socket(family, kind)))
            sockets[-1].bind(address)
            if kind == 1:
                sockets[-1].listen()
        variables = {"theirs": str(theirs), "place": str(place), "work": str(run.work)}
        variables |= {"pid": process.pid, "memory": int(number)}
        names = ("tcp", "tcp6", "udp")
        variables |= {it: each.getsockname()[:2] for it, each in zip(names, sockets, strict=False)}
        yield Outside(state, variables)


def done(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


TRY = """
import ctypes, fcntl, os, signal, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
def done(result):
    if result < 0: raise OSError(ctypes.get_errno(), 'failed')
    return True
globals().update(VARIABLES)
for line in LINES.split('\\n'):
    try: line and exec(line); line and print('DID', line)
    except (OSError, PermissionError): pass
print('tried')
"""

DEVICES = """
/proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger
/proc/self/oom_score_adj /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled
/sys/fs/cgroup/cgroup.procs /dev/kmsg /dev/mem /dev/vda /dev/sda
"""
FAILS = {
    "a file": """
os.open(theirs, os.O_WRONLY)
os.open(theirs, os.O_RDWR)
os.fchmod(os.open(theirs, os.O_RDONLY), 0o777)
done(call(452, -100, theirs.encode(), 0o777, 0))  # fchmodat2
os.chown(theirs, os.getuid(), os.getgid())
os.utime(theirs, (1, 1))
os.setxattr(theirs, 'user.x', b'x')
os.link(theirs, os.environ['TMPDIR'] + '/linked')
os.open(theirs, os.O_RDONLY | os.O_TRUNC)
""",
    # `chattr` needs no right to write: its calls are on a file opened to be read.
    "its flags": "".join(
        f"fcntl.ioctl(os.open(theirs, os.O_RDONLY), {number}, bytes(40))\n"
        for number in (0x40086602, 0x401C5820, 0x40087602, 0x5000940E)
    ),
    "a process": """
done(libc.ptrace(16, pid, 0, 0))
open(f'/proc/{pid}/mem', 'rb')
os.listdir(f'/proc/{pid}/root')
os.listdir(f'/proc/{pid}/cwd')
os.readlink(f'/proc/{pid}/fd/0')
os.pidfd_open(pid); done(call(438, os.pidfd_open(pid), 0, 0))  # pidfd_getfd
signal.pidfd_send_signal(os.pidfd_open(pid), 9)
done(libc.prlimit(pid, 7, None, None))
os.sched_setaffinity(pid, [0])
os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
done(call(251, 1, pid, 0x6000))  # ioprio_set
""",
    # System V memory, semaphores and queues, which belong to whoever knows their number.
    "what processes share": """
done(call(30, memory, 0, 0))  # shmat
done(call(31, memory, 0, 0))  # shmctl: remove it
done(call(66, 0, 0, 0, 0))  # semctl
done(call(71, 0, 0, 0))  # msgctl
""",
    "powers": """
done(libc.unshare(0x10000000))  # a user namespace
done(libc.unshare(0x00020000))
done(call(56, 0x10000000 | 17, 0, 0, 0, 0))  # clone
done(call(435, struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64))  # clone3
done(libc.setns(os.open('/proc/1/ns/user', os.O_RDONLY), 0))
done(libc.setns(os.open('/proc/self/ns/user', os.O_RDONLY), 0))
done(libc.capset(struct.pack('Ii', 0x20080522, 0), struct.pack('6I', *[2**32 - 1] * 6)))
done(libc.prctl(47, 2, 21, 0, 0))  # ambient
os.setuid(os.getuid() + 1)
os.setgroups([4])
open('/proc/self/uid_map', 'w').write('0 0 1')
done(libc.chroot(b'/'))
os.mknod('disk', 0o60600, os.makedev(254, 0))
os.mknod(os.environ['TMPDIR'] + '/disk', 0o60600, os.makedev(254, 0))
""",
    "the kernel": """
done(call(425, 8, ctypes.create_string_buffer(120)))  # io_uring_setup
done(call(321, 0, ctypes.create_string_buffer(120), 120))  # bpf
done(call(298, ctypes.create_string_buffer(120), 0, -1, -1, 0))  # perf_event_open
done(call(323, 1))  # userfaultfd
done(call(250, 0, -3, 1, 0, 0))  # keyctl: the keyring of the session
done(call(248, b'user', b'kode', b'x', 1, -3))  # add_key
done(call(304, -100, bytes(140), 0))  # open_by_handle_at
done(call(300, 0, 0))  # fanotify_init
done(libc.sethostname(b'x', 1))
done(call(169, 0xfee1dead, 672274793, 0, None))  # reboot: Ctrl-Alt-Del off
done(call(175, b'', 0, b''))  # init_module
done(call(246, 0, 0, 0, 0))  # kexec_load
done(call(167, b'/nowhere', 0))  # swapon
done(call(163, b'/nowhere'))  # acct
done(call(103, 5, 0, 0))  # syslog: clear it
""",
    # Set to what it is, should it be possible after all.
    "the clock": """
t = time.time_ns(); done(call(227, 0, struct.pack('qq', t // 10**9, t % 10**9)))
done(call(164, struct.pack('qq', int(time.time()), 0), None))
""",
    "devices": "".join(f"os.open({path!r}, os.O_WRONLY)\n" for path in DEVICES.split()),
    "the machine": """
open('/proc/kcore', 'rb').read(1)
open('/dev/vda', 'rb').read(1)
open('/dev/mem', 'rb').read(1)
os.open('/dev/tty', os.O_RDWR)
""",
    "mounts": """
done(libc.umount2(f'{work}/.env'.encode(), 0))
done(libc.umount2(f'{work}/.env'.encode(), 2))
done(libc.umount2(work.encode(), 2))
done(libc.umount2(b'/tmp', 2))
done(libc.mount(None, work.encode(), None, 32 | 4096, None))
done(libc.mount(b'/', b'/mnt', None, 4096, None))
done(call(428, -100, work.encode(), 1))  # open_tree
done(call(467, -100, work.encode(), 1, 0, 0))  # open_tree_attr
done(call(430, b'tmpfs', 0))  # fsopen
done(call(442, -100, work.encode(), 0, bytes(32), 32))  # mount_setattr
done(call(155, b'/', b'/'))  # pivot_root
os.remove(f'{work}/.env')
os.rename(f'{work}/.env', f'{work}/env')
os.rename('/bin/true', f'{work}/.env')
os.link(f'{work}/.env', f'{work}/env')
open(f'{work}/.env').read()
os.chmod(f'{work}/.env', 0o777)
""",
    "kinds of sockets": """
socket.socket(40, socket.SOCK_STREAM)  # vsock
socket.socket(17, socket.SOCK_RAW)  # packet
socket.socket(38, socket.SOCK_SEQPACKET)  # alg
socket.socket(44, socket.SOCK_RAW)  # xdp
socket.socket(31, socket.SOCK_RAW)  # bluetooth
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
socket.socketpair(30, socket.SOCK_STREAM)  # tipc
socket.socket(16, 3, 9).bind((0, 1))  # audit
""",
    "services": """
socket.create_connection(tcp6, 2)
socket.socket(socket.AF_UNIX).connect(chr(0) + place)
socket.socketpair(1, 2)[0].connect(place + '/d')
socket.socketpair(1, 2)[0].sendto(b'x', place + '/d')
socket.socketpair(1, 2)[0].sendmsg([b'x'], [], 0, place + '/d')
done(call(41, 1, 2, 0))
s = socket.socket(2, 1); s.sendto(b'x', 0x20000000, tcp)
""",
}
"""Lines of Python, of which every one has to fail by itself: calls that no program of the attacks
makes."""


@pytest.mark.parametrize("lines", FAILS.values(), ids=FAILS)
def test_calls_that_lead_out_of_the_sandbox_fail(run: Run, outside: Outside, lines: str) -> None:
    before = outside.state()
    code = TRY.replace("LINES", repr(lines)).replace("VARIABLES", repr(outside.variables))
    done = run(run.python(code))
    assert done.out == "tried\n", done.out + done.err
    assert outside.state() == before


PLANTS = (
    "echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo x >> .git/config; "
    "mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/post-checkout; echo x > sub/.git/config; "
    "echo x > .envrc; echo x > AGENTS.md; mkdir -p .github/workflows .vscode; "
    "echo x > .github/workflows/ci.yml; echo x > .vscode/tasks.json; "
    "ln -s ~/.ssh/id_rsa notes.txt; mkfifo pipe; cp /bin/sh sh; chmod u+s,g+s sh; mknod dev c 0 0; "
    "setfattr -n user.overlay.opaque -v y . ; setfattr -n user.overlay.redirect -v /etc sub; true"
)
LEAVES = {
    "a link that flips while it is written through": "mkdir -p $TMPDIR/in; touch $TMPDIR/in/theirs;"
    "(while :; do ln -sfn {place} $TMPDIR/l; ln -sfn in $TMPDIR/l; done) & "
    "for i in $(seq 300); do echo x >> $TMPDIR/l/theirs; done 2>/dev/null; kill %1",
    "a hard link from outside": "echo x >> same; chmod 777 same; truncate -s 0 same",
    "processes": "kill -9 -1; killall sleep; ipcrm -a; echo x > /dev/udp/{udp[0]}/{udp[1]}",
    "the project": "echo x > made; rm same; rm -rf .git/*; mkdir d; chmod 000 .; mv ../work ../m",
    "what runs later": PLANTS,
}


@pytest.mark.parametrize("command", LEAVES.values(), ids=LEAVES)
def test_commands_leave_all_outside_as_it_is(run: Run, outside: Outside, command: str) -> None:
    before = outside.state()
    run(command.format(**outside.variables) if "{" in command else command)
    assert outside.state() == before


def test_the_network_of_the_machine_is_reached_when_allowed(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = f"import socket; socket.create_connection({listening.getsockname()}, 2); print(1)"
        assert run.again(network=True)(run.python(connect)).out == "1\n"


def test_only_the_three_streams_are_inherited(run: Run) -> None:
    with open(run.home / ".ssh" / "id_rsa") as secret:
        os.set_inheritable(secret.fileno(), True)
        done = run(f"ls /proc/self/fd; cat <&{secret.fileno()}")
    assert done.out.split() == ["0", "1", "2", "3"]  # 3: the folder it lists


def test_the_command_has_no_power_in_any_set(run: Run) -> None:
    done = run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    values = dict(line.split(":\t") for line in done.out.splitlines())
    sets = {name: int(value, 16) for name, value in values.items() if name.startswith("Cap")}
    bound = sets.pop("CapBnd")
    assert set(sets.values()) == {0}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")
    assert bound == 0 or os.getuid() != 0, "root gets back what the bounding set leaves"


def test_a_command_cannot_type_into_a_terminal(run: Run) -> None:
    """A terminal as its standard input, as when kode is started in one, is not there at all; one of
    its own cannot be typed into either."""
    master, slave = os.openpty()
    lines = "fcntl.ioctl(1, 0x5412, b'x')\nfcntl.ioctl(1, 0x541c, b'x')\nopen(terminal, 'w')"
    variables = {"terminal": os.ttyname(slave)}
    code = TRY.replace("LINES", repr(lines)).replace("VARIABLES", repr(variables))
    attempt = run.made.begin(kind=run.kind)
    attempt.wrap(("/bin/bash", "-c", run.python(code)))
    done = subprocess.run(
        attempt.argv, cwd=run.work, pass_fds=attempt.descriptors, stdin=slave, stdout=slave,
        start_new_session=True, env={"PATH": os.environ["PATH"]}, timeout=30, check=False,
    )  # fmt: skip
    attempt.settle()
    attempt.close()
    assert done.returncode == 0
    assert os.read(master, 10_000) == b"tried\r\n"
    os.close(master)
    os.close(slave)


def test_only_named_files_and_links_become_real(layered: Run) -> None:
    done = layered(PLANTS, apply=True)
    assert not {*done.changes} & {"pipe", "dev"}
    assert not (layered.work / "pipe").exists()
    assert not (layered.work / "sh").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    paths = [path for path in layered.work.rglob("*") if not path.is_symlink()]
    assert not [name for path in paths for name in os.listxattr(path) if "overlay" in name]


def test_a_link_to_what_is_hidden_does_not_become_real(layered: Run) -> None:
    layered(
        "ln -s ~/.ssh/id_rsa a; ln -s ../.kode/config.json b; mkdir d; ln -s ../../.ssh d/c; "
        "ln -s /bin/sh fine; ln -s d also-fine",
        apply=True,
    )
    assert sorted(os.listdir(layered.work)) == [".git", "also-fine", "d", "fine"]
    assert os.listdir(layered.work / "d") == []
