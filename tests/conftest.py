"""No test reaches the world: its own home, no keys, no network beyond loopback."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from pytest_socket import socket_allow_hosts

from kode import credentials

# How long an example takes is the machine's business, not the test's.
settings.register_profile("kode", deadline=None)
settings.load_profile("kode")


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("KODE_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(credentials, "_KEYS", {})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "kode-home"))
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
