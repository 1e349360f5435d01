"""A home with keys and a repository in it, and every kind of sandbox that this machine has."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import find_fault
from kode.tool import ToolContext
from kode.tools.shell import shell
from tests.needs import lacking
from tests.sandbox.sandboxed import KINDS, SOURCES, Kind, Run, opened, put
from tests.tools.conftest import context, run_tool
from tests.workplaces import empty_repository, workplace

__all__ = ["context"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may look into, and that is not hidden as temporary ones are."""
    around = next(name for name in ("/srv", "/opt", SOURCES) if os.access(name, os.W_OK))
    folder = Path(tempfile.mkdtemp(prefix="kode-test-", dir=around)).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = place / "home"
    settings = "[user]\nname = Me\nemail = me@here.test\n[safe]\ndirectory = *\n"
    put(home, {".ssh/id_rsa": "PRIVATE", ".gitconfig": settings})
    put(home, {".kode/config.json": '{"api_key": "SECRET"}'})
    empty_repository(home / "work")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def work(home: Path) -> Path:
    return home / "work"


@pytest.fixture
def made(home: Path, work: Path) -> Iterator[Sandbox]:
    sandbox = opened(home, work)
    yield sandbox
    sandbox.close()


_FAULTS: dict[Kind, str] = {}


def need(made: Sandbox, kind: Kind) -> Run:
    """Runs in this kind; skips the test where it is not to be had."""
    if kind not in _FAULTS:
        _FAULTS[kind] = find_fault(made, kind)
    if _FAULTS[kind]:
        lacking("Landlock" if kind == "landlock" else "bubblewrap", _FAULTS[kind])
    return Run(kind, made)


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, made: Sandbox) -> Run:
    """Each kind that this machine has."""
    return need(made, request.param)


@pytest.fixture
def layered(made: Sandbox) -> Run:
    return need(made, "layered")


async def in_shell(context: ToolContext, run: Run, command: str, **more: Any) -> Any:
    """What the shell tool gives for a command in the sandbox."""
    attempt = run.made.begin(kind=run.kind)
    inside = replace(context, place=workplace(run.work), wrap_command=attempt.wrap)
    try:
        return await run_tool(inside, shell, command=command, **more)
    finally:
        assert attempt.ended.is_set()
        attempt.close()
