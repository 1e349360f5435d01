"""`kode view` as a command, and the session as a file."""

import re
import socket
import sys

import pytest

from kode import paths
from kode.cli.commands import session
from kode.errors import ConfigError
from kode.plugins.view import command
from tests.cli.commands.answers import run
from tests.plugins.view.conftest import a_session, hostile_session
from tests.tables import for_each


def test_a_port_in_use_is_an_error_with_advice():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"port {port} cannot be used .* Leave out --port"):
            command.main([f"--port={port}", "--no-browser"])


@for_each("port", ["x", "-1", "65536", "80.5"])
def test_a_number_that_is_no_port_is_an_error(port):
    with pytest.raises(ConfigError, match="port"):
        command.main([f"--port={port}"])


def test_no_browser_is_opened_where_there_is_no_screen(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not command.has_screen()

    monkeypatch.setenv("DISPLAY", ":0")
    assert command.has_screen()


def test_an_exported_session_is_one_file_and_requests_nothing(capsys, tmp_path):
    many = a_session(paths.home(), [f"ask {number}" for number in range(60)], tmp_path)
    for id, words in ((many, "re: ask 59"), (hostile_session(paths.home()), "&lt;script&gt;")):
        assert run(session, ["export", id, "--format", "html"]) == 0

        page = capsys.readouterr().out
        assert page.startswith("<!doctype html>")
        assert words in page
        assert "default-src 'none'; style-src 'sha256-" in page
        assert not re.search(r"<script|<link|<form|\shref=\"(?!#)|\ssrc=\"|url\(|@import", page)
        assert page.count("</style>") == 1
