"""A context for tools in a scratch project, and a way to call them as the loop does; a home with
keys and a repository in it, and the sandboxes that this machine has."""

import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kode.tools.sandbox import Sandbox

from kode.contracts import Tool, ToolContext, ToolOutput
from kode.events import Event
from tests.tools.sandboxed import KINDS, Kind, Run, opened

Call = Callable[..., Awaitable[ToolOutput]]


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def context(tmp_path: Path, project: Path, events: list[Event]) -> ToolContext:
    home = tmp_path / "home"
    home.mkdir()
    return ToolContext(
        cwd=project,
        call_id="call-1",
        session_id="s",
        emit=events.append,
        seen_files={},
        output_dir=home / "outputs",
        protected=(home,),
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        roots=(project,),
    )


@pytest.fixture
def call(context: ToolContext) -> Call:
    async def checked(tool: Tool, /, **arguments: Any) -> ToolOutput:
        output = await tool.run(context, tool.check(arguments))
        return ToolOutput(text=output) if isinstance(output, str) else output

    return checked


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_rsa").write_text("PRIVATE")
    (folder / ".gitconfig").write_text("[user]\n\tname = Me\n\temail = me@here.test\n")
    (folder / ".kode").mkdir()
    (folder / ".kode" / "config.json").write_text('{"api_key": "SECRET"}')
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def work(home: Path) -> Path:
    folder = home / "work"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def made(home: Path, work: Path) -> Sandbox:
    return opened(home, work)


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, made: Sandbox) -> Run:
    """Each kind that this machine has."""
    return tried(made, request.param)


@pytest.fixture
def run_whole(made: Sandbox) -> Run:
    return tried(made, "bubblewrap")


@pytest.fixture
def run_alone(made: Sandbox) -> Run:
    """Landlock and seccomp alone."""
    return tried(made, "landlock")


def tried(made: Sandbox, kind: Kind) -> Run:
    fault = made.fault(kind)
    if fault:
        pytest.skip(f"needs {kind}: {fault}")
    return Run(made, kind)
