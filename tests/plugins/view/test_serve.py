"""`kode view` as a command, and the session as a file."""

import re
import socket
import subprocess
import sys

import pytest

from kode import paths
from kode.cli.commands import session
from kode.errors import ConfigError, SessionError
from kode.plugins.view import command, serve
from kode.plugins.view.access import Keys
from tests.cli.commands.answers import run
from tests.plugins.view.conftest import HOSTILE, a_session, hostile_session, make_place, remember


def test_a_port_in_use_is_an_error_with_advice(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"port {port} cannot be used .* Leave out --port"):
            serve.serve(make_place(tmp_path), port=port, browser=False, say=print)


@pytest.mark.parametrize("port", ["x", "-1", "65536", "80.5"])
def test_a_number_that_is_no_port_is_an_error(port):
    with pytest.raises(ConfigError, match="port"):
        command.main([f"--port={port}"])


def test_no_browser_is_opened_where_there_is_no_screen(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not serve.has_screen()

    monkeypatch.setenv("DISPLAY", ":0")
    assert serve.has_screen()


def test_two_servers_share_no_key():
    one, two = Keys(address="127.0.0.1:1"), Keys(address="127.0.0.1:2")

    assert len({one.token, two.token, one.cookie, two.cookie}) == 4
    assert one.cookie_name != two.cookie_name
    assert one.form_token("/a") != two.form_token("/a")
    assert one.form_token("/a") != one.form_token("/b")


@pytest.mark.slow
def test_the_room_imports_no_other_face():
    code = "import sys, kode.plugins.view.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    faces = ("kode.cli", "kode.plugins.acp", "kode.plugins.serve", "kode.api")

    assert [name for name in done.stdout.split() if name.startswith(faces)] == []


# ── a session as a file ──────────────────────────────────────────────────────────────────────


def test_an_exported_session_is_one_file_and_requests_nothing(capsys, tmp_path):
    id = a_session(paths.home(), ["fix the race", "and the test"], tmp_path)

    assert run(session, ["export", id[:12], "--format", "html"]) == 0

    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert "re: and the test" in page
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not re.search(r"<script|<link|<form|\shref=\"(?!#)|\ssrc=", page)
    assert re.findall(r"url\(|@import", page) == []


def test_all_of_a_long_session_is_in_the_file(capsys):
    id = a_session(paths.home(), [f"ask {number}" for number in range(60)])

    run(session, ["export", id, "--format", "html"])

    assert "re: ask 59" in capsys.readouterr().out


def test_an_exported_hostile_session_is_text(capsys):
    id = hostile_session(paths.home())

    run(session, ["export", id, "--format", "html"])

    page = capsys.readouterr().out
    assert HOSTILE[:20] not in page
    assert "&lt;script&gt;" in page
    assert page.count("</style>") == 1


def test_an_export_of_no_session_is_a_sentence():
    with pytest.raises(SessionError, match="There is no session"):
        run(session, ["export", "2020", "--format", "html"])


# ── secrets ──────────────────────────────────────────────────────────────────────────────────


async def test_a_key_that_a_person_left_in_memory_is_masked(browser):
    await remember(browser.place)
    facts = paths.memory_folder(browser.place.home, None) / "facts" / "user.md"
    key = "sk-proj-" + "a1B2c3D4" * 6
    facts.write_text(f"the key is {key}\n§\nprefers tabs")

    page = browser.get("/memory")

    assert key not in page
    assert "the key is" in page
