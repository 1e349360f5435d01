"""No test reaches the world: its own home, no keys, no network beyond loopback.

Here too: which tests are `slow`, and which this machine cannot run.
"""

import functools
import gc
import gettext
import importlib.metadata
import itertools
import os
import re
import signal
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

from kode import credentials
from kode.events import Event
from kode.sandbox import trial
from kode.sandbox.reach import Kind
from kode.sandbox.sandbox import Sandbox
from tests.effort import ALL, EVERYTHING, IS_SEEDED, PART, unsampled
from tests.needs import skip_without

# How long an example takes is the machine's business, not the test's.
settings.register_profile("all", deadline=None, max_examples=ALL)
settings.register_profile("not slow", deadline=None, max_examples=PART)
settings.load_profile("all")

# A shell's job in the background ignores SIGINT, and `nohup` SIGHUP: every kode that a test starts
# would ignore them, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Each parser of a command line looks for the catalog of each of its words anew, and there is none.
gettext.find = functools.cache(gettext.find)  # type: ignore[assignment]

# To read what all packages add, for each home again, takes longer than most tests here.
importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)

FAULTS = Path(__file__).parent / "faults"
PROBED = f"{Path(__file__).parent}/sandbox/"
"""Where the self-test of the sandbox is itself under test."""

SLOW = (
    Path(__file__).parent / "e2e",
    Path(__file__).parent / "attacks",
    FAULTS,
    Path(__file__).parent / "plugins" / "goals" / "test_pursue.py",
)
"""Where the tests start processes, nearly all of them."""

OF_A_PERSON = ("KODE_", "OPENAI_", "ANTHROPIC_", "AWS_", "AZURE_", "CLOUD_ML_")
"""What variables begin with that set up kode and its providers."""


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith(OF_A_PERSON)]:
        del os.environ[name]
    # Collecting makes objects that live to the end; looking at all of them again and again for
    # garbage is a fifth of its time.
    gc.disable()
    if not EVERYTHING and (IS_SEEDED or config.option.markexpr == "not slow"):
        settings.load_profile("not slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not even import the files of which `make test` would run nothing."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    if any(collection_path.is_relative_to(folder) for folder in SLOW):
        return "pytest.mark.smoke" not in text or None
    return _ALL_SLOW.search(text) is not None or None


def pytest_collection_finish() -> None:
    gc.freeze()
    # What one test leaves is little: looking for it every 700 objects costs more than it frees.
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make test` leaves out what is slow: these folders but for their `smoke` tests, and what is
    marked where it stands. CI leaves out a part of the cases of `sampled` tests."""
    for item in items:
        if item.get_closest_marker("smoke") is None and any(
            item.path.is_relative_to(folder) for folder in SLOW
        ):
            item.add_marker("slow")
    if IS_SEEDED and (left_out := set(unsampled(items))):
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


_ALL_SLOW = re.compile(r"^pytestmark = (pytest\.mark\.slow$|\[[^]]*pytest\.mark\.slow[,\]])", re.M)
"""The line by which a whole file is slow."""

_folders = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this test alone. Pytest's own also links to the newest folder of each name, which takes
    longer than most tests here."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_folders)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate to trust: a client that reads all of them takes longer than what it does."""
    end = "-----END CERTIFICATE-----"
    path = tmp_path_factory.mktemp("tls", numbered=False) / "authority.pem"
    path.write_text(certifi.contents().partition(end)[0] + end)
    return path


@pytest.fixture(scope="session", autouse=True)
def small_repositories(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without the examples of hooks that `git init` copies into each."""
    template = tmp_path_factory.mktemp("git", numbered=False)
    (template / "hooks").mkdir()
    (template / "info").mkdir()
    os.environ["GIT_TEMPLATE_DIR"] = str(template)


@pytest.fixture(autouse=True)
def isolated(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    one_authority: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credentials, "_KEYS", {})
    credentials.redact.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "kode-home"))
    # A power cut is played in the folder of faults, by processes of their own.
    if not request.path.is_relative_to(FAULTS):
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    if not str(request.path).startswith(PROBED):
        monkeypatch.setattr(trial, "find_fault", _find_fault_once)


_without_faults: set[Kind] = set()
_find_fault = trial.find_fault


def _find_fault_once(sandbox: Sandbox, kind: Kind) -> str:
    """A self-test without a fault holds for all tests: it starts an interpreter for each."""
    if kind in _without_faults:
        return trial.find_obstacle(sandbox, kind)
    if not (fault := _find_fault(sandbox, kind)):
        _without_faults.add(kind)
    return fault


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            skip_without(program)
