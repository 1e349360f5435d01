"""No test reaches the world: its own home, no keys, no network beyond loopback.

Here too: which tests are `slow`, and the line that says what this machine lacks.
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from pytest_socket import socket_allow_hosts

from kode import credentials
from tests.needs import Lacking, skip_without, summary

# How long an example takes is the machine's business, not the test's.
settings.register_profile("kode", deadline=None)
settings.load_profile("kode")

# A shell's job in the background ignores SIGINT, and so would every kode that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LACKS = "lacks"
"""A property of a report: what its test was skipped for."""

FAULTS = Path(__file__).parent / "faults"
SLOW = (Path(__file__).parent / "e2e", FAULTS)
"""Folders whose tests start processes, nearly all of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` leaves out what is slow: these folders but for their `smoke` tests, and what is
    marked where it stands."""
    for item in items:
        if item.get_closest_marker("smoke") is None and any(
            item.path.is_relative_to(folder) for folder in SLOW
        ):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def isolated(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("KODE_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(credentials, "_KEYS", {})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "kode-home"))
    # A power cut is played in the folder of faults, by processes of their own.
    if not request.path.is_relative_to(FAULTS):
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            skip_without(program)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Lacking):
        report.user_properties.append((LACKS, call.excinfo.value.thing))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line says what this machine lacks, and how many tests that cost."""
    skipped = terminalreporter.stats.get("skipped", [])
    things = [dict(getattr(one, "user_properties", ())).get(LACKS, "") for one in skipped]
    if things:
        terminalreporter.write_line(summary(things))
