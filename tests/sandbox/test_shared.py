"""What the commands of one sandbox share, and what one that still runs is shown of the project."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kode import durable
from kode.sandbox.attempt import Attempt
from kode.sandbox.sandbox import Sandbox
from tests.needs import lacking, needs
from tests.sandbox.conftest import need
from tests.sandbox.sandboxed import SOURCES, attempted_in, begun, opened

pytestmark = pytest.mark.slow

SERVES = """
import socket
server = socket.create_server(("127.0.0.1", 0))
open("/tmp/port", "w").write(str(server.getsockname()[1]))
print("ready", flush=True)
while True:
    server.accept()[0].sendall(b"answer")
"""
ASKS = """
import socket
port = int(open("/tmp/port").read())
print(socket.create_connection(("127.0.0.1", port)).recv(9).decode())
"""


@contextmanager
def running(made: Sandbox, command: str) -> Iterator[tuple[Attempt, "subprocess.Popen[str]"]]:
    """A command in the sandbox that has said its first line."""
    attempt = begun(made, "layered")
    wrapped = attempt.wrap(("/bin/bash", "-c", command))
    process = subprocess.Popen(
        wrapped.argv,
        pass_fds=wrapped.descriptors,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield attempt, process
    finally:
        process.kill()
        process.communicate()
        wrapped.settle()
        attempt.close()


@pytest.fixture
def layered(made: Sandbox) -> Sandbox:
    need(made, "layered")
    if made.loopback() is None:
        lacking("nsenter", "apt install util-linux")
    return made


def script(made: Sandbox, name: str, text: str) -> str:
    (made.place.cwd / name).write_text(text)
    return f"exec python3 {name}"


def test_a_server_of_one_command_answers_others_of_its_sandbox(layered: Sandbox) -> None:
    ask, other = (
        script(layered, "ask.py", ASKS),
        opened(layered.place.home.parent, layered.place.cwd),
    )
    with running(layered, script(layered, "serve.py", SERVES)):
        port = Path(layered.temporary_folder(), "port").read_text()
        with socket.create_server(("127.0.0.1", int(port))):  # no hit, despite one outside
            done = attempted_in(layered, "layered", ask)
        Path(other.temporary_folder(), "port").write_text(port)
        refused = attempted_in(other, "layered", ask)
    other.close()
    assert (done.out, done.blocked) == ("answer\n", ()), done.err
    assert "ConnectionRefusedError" in refused.err


def test_each_command_has_its_own_network_where_sharing_fails(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.sandbox.shared.make_loopback", lambda: None)
    made = opened(home, home / "work")
    need(made, "layered")
    done = attempted_in(made, "layered", "cat /proc/net/dev")
    assert [line.split(":")[0].strip() for line in done.out.splitlines() if ":" in line] == ["lo"]


def test_files_left_in_tmp_go_when_the_sandbox_closes(layered: Sandbox) -> None:
    attempted_in(layered, "layered", "echo kept > /tmp/note")
    tmp = layered.private_tmp()
    assert tmp is not None
    assert (tmp / "note").read_text() == "kept\n"

    layered.close()

    assert not tmp.exists()
    assert attempted_in(layered, "layered", "ls /tmp/note").code != 0


def test_the_temporary_folder_stays_while_a_command_runs(layered: Sandbox) -> None:
    with running(layered, "echo ready; read end"):
        tmp = layered.private_tmp()
        layered.close()
        assert tmp is not None
        assert tmp.exists()


SHOWS = (
    "cat kept gone; echo ready; read now; cat kept; ls gone; cat new/file; cat own .env; echo {}"
)


def test_a_running_command_is_shown_what_became_of_files(layered: Sandbox) -> None:
    cwd = layered.place.cwd
    (cwd / "kept").write_text("")
    (cwd / "gone").write_text("")
    (cwd / ".env").write_text("KEY=old-secret")
    with running(layered, f"echo mine > own; {SHOWS}") as (attempt, process):
        durable.replace(cwd / ".env", b"KEY=new-secret", mode=0o644)
        durable.replace(cwd / "kept", b"kept now\n", mode=0o644)
        (cwd / "gone").unlink()
        (cwd / "new").mkdir()
        (cwd / "new" / "file").write_text("new now\n")
        layered.refresh_running_commands(
            [str(cwd / name) for name in ("kept", "gone", "new/file", ".env")]
        )
        out, _ = process.communicate("\n")
        changes = [(Path(one.path).name, one.change) for one in attempt.changes()]
    assert out == "kept now\nnew now\nmine\n{}\n"
    assert changes == [("own", "created")]


def test_showing_a_file_follows_none_of_its_links(layered: Sandbox, place: Path) -> None:
    cwd, target = layered.place.cwd, place / "target"
    target.mkdir()
    (target / "file").write_text("as it was")
    (cwd / "folder").mkdir()
    trap = f"rmdir folder; ln -s {target} folder; ln -s {target}/file file; echo ready; read now"
    with running(layered, trap):
        (cwd / "folder" / "file").write_text("written by a tool")
        (cwd / "file").write_text("written by a tool")
        layered.refresh_running_commands([str(cwd / "folder" / "file"), str(cwd / "file")])
    assert (target / "file").read_text() == "as it was"


def test_files_behind_a_folder_turned_into_a_link_stay_hidden(layered: Sandbox) -> None:
    cwd = layered.place.cwd
    hidden = layered.place.home / "beside"
    hidden.mkdir()
    (hidden / "key").write_text("secret\n")
    (cwd / "folder").mkdir()
    (cwd / "folder" / "key").write_text("own\n")
    with running(layered, "touch folder/own; echo ready; read now; cat folder/key") as (_, process):
        (cwd / "folder" / "key").unlink()
        (cwd / "folder").rmdir()
        (cwd / "folder").symlink_to(hidden)
        layered.refresh_running_commands([str(cwd / name) for name in ("folder/key", "folder")])
        out, _ = process.communicate("\n")
    assert "secret" not in out


KILLED_AS_IT_STARTS = """
import os, signal, subprocess
from kode.sandbox import shared

class Popen(subprocess.Popen):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen = Popen
shared.make_loopback()
"""


@needs("bwrap")
def test_a_kill_while_the_network_is_made_leaves_no_process() -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", KILLED_AS_IT_STARTS], cwd=SOURCES, start_new_session=True
    )
    assert killed.wait(30) == -signal.SIGKILL

    deadline = time.monotonic() + 20
    while lives(killed.pid):
        assert time.monotonic() < deadline, "a process of bubblewrap waits for ever"
        time.sleep(0.01)


def lives(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False
