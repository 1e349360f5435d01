"""MCP servers as their READMEs say (`npx -y`, `uvx`, `bunx`), from the registries: one start with
the network, which a person allows once, and none after it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.effort import EVERYTHING
from tests.needs import needs, skip_without
from tests.scripted_server import ScriptedServer

pytestmark = [needs("bwrap"), pytest.mark.timeout(900)]

SERVERS = {
    "everything": ("npx -y @modelcontextprotocol/server-everything", "echo"),
    "filesystem": ("npx -y @modelcontextprotocol/server-filesystem .", "read_text_file"),
    "memory": ("npx -y @modelcontextprotocol/server-memory", "read_graph"),
    "thinking": ("npx -y @modelcontextprotocol/server-sequential-thinking", "sequentialthinking"),
    "context7": ("npx -y @upstash/context7-mcp", "resolve-library-id"),
    "playwright": ("npx -y @playwright/mcp", "browser_navigate"),
    "devtools": ("npx -y chrome-devtools-mcp", "take_snapshot"),
    "git": ("uvx mcp-server-git", "git_status"),
    "fetch": ("uvx mcp-server-fetch", "fetch"),
    "time": ("uvx mcp-server-time", "get_current_time"),
    "bun": ("bunx @modelcontextprotocol/server-memory", "read_graph"),
}
"""Name → the line of its README, and one of its tools."""
TRIED = tuple(SERVERS) if EVERYTHING else ("memory", "time")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Which of the launchers reaches a registry."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "mcp-server-time"]
    npm = ["npm", "view", "@modelcontextprotocol/server-memory", "version"]
    tries = {"npx": npm, "bunx": npm, "uvx": pip}
    folder = tmp_path_factory.mktemp("tries")
    return {launcher: succeeds(command, folder) for launcher, command in tries.items()}


def succeeds(command: list[str], folder: Path) -> bool:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def add(place: Place, name: str, registries: dict[str, bool]) -> str:
    """Configures a server; returns the name of a tool of it."""
    line, tool = SERVERS[name]
    launcher = line.split()[0]
    skip_without(launcher)
    if not registries[launcher]:
        pytest.skip(f"{launcher} reaches no registry from here")
    # A machine may have certificates of its own.
    place.extra = {key: os.environ[key] for key in CERTIFICATES if key in os.environ}
    subprocess.run(["git", "init", "--quiet", str(place.project)], check=True)
    assert place.run("mcp", "add", name, "--", *line.split()).code == 0
    return tool


@pytest.mark.parametrize("name", TRIED)
def test_a_readme_line_downloads_once_when_allowed(
    place: Place, registries: dict[str, bool], name: str
) -> None:
    tool = add(place, name, registries)

    unasked = place.run("mcp", "test", name)
    first = place.run("mcp", "test", name, "--yes")
    later = place.run("mcp", "test", name)

    assert unasked.code == 3
    assert "--yes" in unasked.err
    assert first.code == 0, first.err
    assert later.code == 0, later.err
    assert f"tool      {tool}" in later.out
    assert "download" not in later.err


def test_a_session_asks_once_and_the_server_answers(
    place: Place, registries: dict[str, bool]
) -> None:
    add(place, "memory", registries)
    arguments = {"entities": [{"name": "Ann", "entityType": "person", "observations": ["tea"]}]}
    call = {"name": "mcp__memory__create_entities", "arguments": arguments}
    with ScriptedServer([{"calls": [call]}, {"text": "Noted."}]) as server:
        place.url = server.openai_url
        with Terminal(
            KODE,
            ["--model", "m", "--no-memory", "--allow", "mcp(memory)"],
            cwd=place.project,
            env=place.environ,
            height=60,
        ) as terminal:
            terminal.until("ask · m")
            terminal.type("remember Ann", "enter")
            terminal.until("Start it once with the network", "server-memory", timeout_s=60)
            terminal.type("y")
            terminal.until("starts with the network, once")
            text = terminal.until("Noted.", timeout_s=240)
            assert text.count("Start it once with the network") <= 1
            terminal.type("exit", "enter")
            assert terminal.ended() == 0
    assert "tea" in place.session_files[-1].read_text()
