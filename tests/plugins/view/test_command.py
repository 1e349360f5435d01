"""`kode view` as a command, and the session as a file."""

import socket
import sys

import pytest

from kode.errors import ConfigError
from kode.plugins.view import command
from tests.tables import for_each


def test_a_port_in_use_is_an_error_with_advice():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"port {port} .* --port"):
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
