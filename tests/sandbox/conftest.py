"""A home with keys and a repository in it, and every sandbox that this machine has: each kind, for
this user and for an ordinary one."""

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
from tests.needs import lacking, lacking_sandbox
from tests.sandbox.sandboxed import (
    KINDS,
    MYSELF,
    SOURCES,
    Kind,
    Run,
    User,
    begun,
    copy_sources,
    fault,
    opened,
    ordinary_user,
)
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


@pytest.fixture(scope="session")
def ordinary() -> Iterator[User | str]:
    with readable_folder() as sources:
        copy_sources(sources)
        yield ordinary_user(sources)


def furnish(home: Path, user: User) -> None:
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("PRIVATE")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Me\n\temail = me@here.test\n[safe]\n\tdirectory = *\n"
    )
    (home / ".kode").mkdir()
    (home / ".kode" / "config.json").write_text('{"api_key": "SECRET"}')
    (home / "work").mkdir()
    empty_repository(home / "work")
    for folder, _, names in os.walk(home):
        user.owns(Path(folder), *(Path(folder) / name for name in names))


@pytest.fixture
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = place / "home"
    furnish(folder, MYSELF)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def work(home: Path) -> Path:
    return home / "work"


@pytest.fixture
def made(home: Path, work: Path) -> Sandbox:
    return opened(home, work)


BY_USER = [
    pytest.param((kind, who), id=f"{kind}-{who}", marks=marks)
    for who, marks in (("myself", ()), ("ordinary", pytest.mark.slow))
    for kind in KINDS
]


@pytest.fixture(params=BY_USER)
def run(request: pytest.FixtureRequest, home: Path, work: Path, ordinary: User | str) -> Run:
    """Each kind that this machine has, for this user and an ordinary one."""
    kind, who = request.param
    user: User | str = MYSELF if who == "myself" else ordinary
    if isinstance(user, str):
        lacking("an ordinary user", user)
    return ready(Run(kind, home, work, user))


@pytest.fixture(params=["myself", pytest.param("ordinary", marks=pytest.mark.slow)])
def run_layered(
    request: pytest.FixtureRequest, home: Path, work: Path, ordinary: User | str
) -> Run:
    user: User | str = MYSELF if request.param == "myself" else ordinary
    if isinstance(user, str):
        lacking("an ordinary user", user)
    return ready(Run("layered", home, work, user))


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


_FAULTS: dict[tuple[str, int], str] = {}


def ready(run: Run) -> Run:
    """Skips where this kind is not to be had; the home is then the user's own."""
    for folder, _, names in os.walk(run.home):
        with contextlib.suppress(OSError):
            run.user.owns(Path(folder), *(Path(folder) / name for name in names))
    key = (run.kind, run.user.uid)
    if key not in _FAULTS:
        _FAULTS[key] = run.fault()
    if _FAULTS[key]:
        lacking_sandbox(run.kind, _FAULTS[key])
    return run
