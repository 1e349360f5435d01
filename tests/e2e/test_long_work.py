"""Long work on a real terminal: the installed kode and its tools, a server that plays a script."""

import time

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

FULL = ("--permission-mode", "full", "--no-memory")


def shell(command):
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


@pytest.fixture
def repl(tmp_path):
    opened = []

    def open_repl(*script, width=100, height=30, arguments=FULL, ready=" · gpt-", **env):
        server = ScriptedServer(list(script)).__enter__()
        place = Place(tmp_path, server.url)
        terminal = Terminal(
            KODE,
            list(arguments),
            cwd=place.project,
            env={**place.environ, **env},
            width=width,
            height=height,
        )
        opened.append((terminal, server))
        terminal.until(ready)
        return terminal

    yield open_repl
    for terminal, server in opened:
        terminal.__exit__()
        server.__exit__(None, None, None)


def wait_for(terminal, path):
    deadline = time.monotonic() + 20
    while not path.exists():
        terminal.read()
        assert time.monotonic() < deadline, terminal.text


def test_a_background_command_can_be_listed_read_and_killed(repl, tmp_path):
    terminal = repl(
        shell("echo serving; touch begun; sleep 600"), {"text": "It serves."}, {"text": "I see."}
    )
    terminal.type("serve", "enter")
    wait_for(terminal, tmp_path / "project" / "begun")
    terminal.until("  serving")

    terminal.type("\x02")
    terminal.until("moved to the background as bg1", "It serves.")
    terminal.type("/bg", "enter")
    terminal.until("bg1  running", "     serving", "/bg kill ID stops a command")
    terminal.type("/bg read 1", "enter")
    terminal.until("Full output:")
    terminal.type("/bg kill bg1", "enter")
    terminal.until("Stopped bg1: echo serving")
    terminal.type("/bg kill bg9", "enter")
    terminal.until("No background command is called 'bg9'. Known: bg1.")
    terminal.type("ctrl-d")

    terminal.until("Resume with")
    assert terminal.ended() == 0


def test_leaving_asks_about_background_commands_and_then_ends_them(repl, tmp_path):
    terminal = repl(shell("echo $$ > begun; sleep 600"), {"text": "It runs."})
    terminal.type("serve", "enter")
    begun = tmp_path / "project" / "begun"
    wait_for(terminal, begun)
    terminal.type("/bg", "enter")
    terminal.until("It runs.")
    terminal.until_gone("Ctrl-C stops")

    terminal.type("ctrl-d")
    terminal.until("1 background command is still running:", "Quit and stop it?")
    terminal.type("enter")
    terminal.until_gone("Quit and stop it?")
    terminal.type("/quit", "enter")
    terminal.until("Quit and stop it?")
    terminal.type("y", "enter")

    terminal.until("Resume with")
    assert terminal.ended() == 0
    assert not _runs(int(begun.read_text()))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_key_opens_the_last_calls_whole_during_the_turn(repl, tmp_path):
    pager = tmp_path / "pager"
    pager.write_text(
        "#!/bin/sh\ncat > $HOME/paged.new; mv $HOME/paged.new $HOME/paged\n"
        "until [ -e $HOME/quit ]; do sleep 0.05; done\n"
    )
    pager.chmod(0o755)
    terminal = repl(
        {"thinking": "Count first.\nThen say.", **shell("seq 1 100; true")},
        shell("touch began; until [ -e go ]; do sleep 0.05; done"),
        {"text": "Counted."},
        PAGER=str(pager),
    )
    terminal.type("count", "enter")
    wait_for(terminal, tmp_path / "project" / "began")

    terminal.type("\x0f")
    wait_for(terminal, tmp_path / "paged")
    (tmp_path / "project" / "go").touch()
    for _ in range(20):
        terminal.read(0.05)
    assert "Counted." not in terminal.text
    (tmp_path / "quit").touch()

    text = terminal.until("Counted.", "3 steps")
    assert "Thought: Count first." in text
    assert "Then say." not in text
    paged = (tmp_path / "paged").read_text()
    assert "Count first.\nThen say." in paged.replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert "command: seq 1 100; true" in paged
    assert "\n37\n" in paged


def test_a_person_who_left_the_window_hears_of_a_question(repl):
    ask = ("--permission-mode", "ask", "--no-memory")
    terminal = repl(shell("ls /build"), shell("ls /dist"), {"text": "Done."}, arguments=ask)
    assert b"\x1b[?1004h" in terminal.raw

    terminal.type("clean", "\x1b[I", "enter")
    terminal.until("answer:")
    assert b"\a" not in terminal.raw
    terminal.type("\x1b[O", "y", "enter")
    terminal.until("ls /dist", "answer:")
    deadline = time.monotonic() + 20
    while b"\a" not in terminal.raw and time.monotonic() < deadline:
        terminal.read()
    assert terminal.raw.count(b"\a") == 1
    terminal.type("y", "enter")
    terminal.until("Done.")
    terminal.type("ctrl-d")

    terminal.until("Resume with")
    assert terminal.ended() == 0
    assert terminal.raw.rindex(b"\x1b[?1004l") > terminal.raw.rindex(b"\x1b[?1004h")
