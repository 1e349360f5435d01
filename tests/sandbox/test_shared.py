"""What the commands of one sandbox share."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kode.sandbox.sandbox import Loopback
from tests.needs import lacking
from tests.sandbox.sandboxed import Run

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


@contextlib.contextmanager
def running(run: Run, command: str) -> Iterator[None]:
    """A command in the sandbox that has said its first line."""
    attempt = run.made.begin(kind=run.kind)
    attempt.wrap(("/bin/bash", "-c", command))
    environment, pipe = {"PATH": os.environ["PATH"]}, subprocess.PIPE
    process = subprocess.Popen(
        attempt.argv, pass_fds=attempt.descriptors, env=environment, stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()
        attempt.settle()
        attempt.close()


@pytest.fixture
def run(layered: Run) -> Run:
    """Only the kind whose commands share a network and `/tmp`."""
    if not layered.made.loopback().enter:
        lacking("nsenter", "apt install util-linux")
    return layered


def test_a_server_of_one_command_answers_others_of_its_sandbox(run: Run) -> None:
    other, ask = run.again(), run.python(ASKS)
    with running(run, run.python(SERVES)):
        port = Path(run.made.temporary_folder(), "port").read_text()
        with socket.create_server(("127.0.0.1", int(port))):  # no hit, despite one outside
            done = run(ask)
        Path(other.made.temporary_folder(), "port").write_text(port)
        refused = other(ask)
    other.made.close()
    assert (done.out, done.blocked) == ("answer\n", ()), done.err
    assert "ConnectionRefusedError" in refused.err


def test_each_command_has_its_own_network_where_sharing_fails(
    layered: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.sandbox.sandbox.make_loopback", Loopback)
    done = layered.again()("cat /proc/net/dev")
    assert [line.split(":")[0].strip() for line in done.out.splitlines() if ":" in line] == ["lo"]


def test_files_left_in_tmp_go_when_the_sandbox_closes(run: Run) -> None:
    run("echo kept > /tmp/note")
    tmp = run.made.private_tmp()
    assert tmp is not None
    assert (tmp / "note").read_text() == "kept\n"
    with running(run, "echo ready; read end"):
        run.made.close()
        assert tmp.exists()
    run.made.close()
    assert not tmp.exists()
    assert run("ls /tmp/note").code != 0
