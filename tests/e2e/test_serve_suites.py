"""`kode mcp serve` by the programs of the protocol's authors: the conformance suite for servers and
the inspector's command line. Both come from npm.
"""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.suites import install, program

ROOT = Path(__file__).parents[2]

SCENARIOS = (
    "server-initialize ping tools-list tools-call-error server-sse-multiple-streams "
    "resources-list prompts-list dns-rebinding-protection"
).split()
"""All others of the suite call tools, prompts and resources of a server that is made for it."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("suites"))


def run(
    installed: Path, place: Place, name: str, *words: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*program(installed, name), *words],
        cwd=place.project,
        env=place.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_conformance_suite_passes(installed: Path, place: Place) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    command = [sys.executable, "-m", "tests.plugins.serve.over_http", str(port), str(place.project)]
    with subprocess.Popen(
        command, cwd=ROOT, env=place.environ, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(port)
            suite = ("conformance", "server", "--url", url, "--scenario")
            ended = {name: run(installed, place, *suite, name) for name in SCENARIOS}
        finally:
            server.kill()

    failed = {name: done.stdout for name, done in ended.items() if done.returncode}
    assert not failed
    assert all(" 0 failed" in done.stdout for done in ended.values())


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline
        time.sleep(0.1)


def inspect(installed: Path, place: Place, *words: str) -> dict[str, Any]:
    done = run(installed, place, "mcp-inspector", "--cli", KODE, "mcp", "serve", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_the_inspector_lists_and_calls(installed: Path, place: Place) -> None:
    listed = inspect(installed, place, "--method", "tools/list")
    call = ("--method", "tools/call", "--tool-name", "kode_sessions", "--tool-arg", "limit=3")
    called = inspect(installed, place, *call)
    found = ("--tool-name", "memory_search", "--tool-arg", "query=tabs")
    memory = inspect(installed, place, "--memory-only", "--method", "tools/call", *found)

    assert [tool["name"] for tool in listed["tools"]][:2] == ["kode_start", "kode_wait"]
    assert called["structuredContent"] == {"sessions": []}
    assert memory["structuredContent"]["hits"] == 0
