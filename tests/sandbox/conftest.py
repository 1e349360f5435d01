"""A home with keys and a repository in it, and every kind of sandbox that this machine has."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kode.sandbox.sandbox import Sandbox
from kode.tool import ToolContext
from kode.tools.shell import shell
from tests.needs import lacking_sandbox
from tests.sandbox.sandboxed import KINDS, SOURCES, Kind, Run, begun, fault, opened
from tests.tools.conftest import context, run_tool
from tests.workplaces import empty_repository, workplace

__all__ = ["context"]


@contextlib.contextmanager
def readable_folder() -> Iterator[Path]:
    """A folder that every user may look into, and that is not hidden as temporary ones are."""
    around = next(name for name in ("/srv", "/opt", SOURCES) if os.access(name, os.W_OK))
    folder = Path(tempfile.mkdtemp(prefix="kode-test-", dir=around))
    folder.chmod(0o755)
    yield folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place() -> Iterator[Path]:
    with readable_folder() as folder:
        yield folder


@pytest.fixture
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = place / "home"
    for name, text in {
        ".ssh/id_rsa": "PRIVATE",
        ".gitconfig": "[user]\nname = Me\nemail = me@here.test\n[safe]\ndirectory = *\n",
        ".kode/config.json": '{"api_key": "SECRET"}',
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "work").mkdir()
    empty_repository(home / "work")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def work(home: Path) -> Path:
    return home / "work"


@pytest.fixture
def made(home: Path, work: Path) -> Sandbox:
    return opened(home, work)


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, home: Path, work: Path) -> Run:
    """Each kind that this machine has."""
    return ready(Run(request.param, home, work))


@pytest.fixture
def run_layered(home: Path, work: Path) -> Run:
    return ready(Run("layered", home, work))


def need(made: Sandbox, kind: Kind) -> None:
    """Skips the test where this kind is not to be had."""
    if why := fault(made, kind):
        lacking_sandbox(kind, why)


def kinds_of(made: Sandbox) -> list[Kind]:
    """Those that hold here."""
    return [kind for kind in KINDS if not fault(made, kind)]


async def in_shell(
    context: ToolContext, made: Sandbox, command: str, kind: Kind | None = None, **more: Any
) -> Any:
    """What the shell tool gives for a command in the sandbox."""
    attempt = begun(made, kind) if kind else made.begin()
    inside = replace(context, place=workplace(made.place.cwd), wrap_command=attempt.wrap)
    try:
        return await run_tool(inside, shell, command=command, **more)
    finally:
        assert attempt.ended.is_set()
        attempt.close()


_FAULTS: dict[Kind, str] = {}


def ready(run: Run) -> Run:
    """Skips where this kind is not to be had."""
    if run.kind not in _FAULTS:
        _FAULTS[run.kind] = fault(opened(run.home, run.work), run.kind)
    if _FAULTS[run.kind]:
        lacking_sandbox(run.kind, _FAULTS[run.kind])
    return run
