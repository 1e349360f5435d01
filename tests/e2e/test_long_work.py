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


def test_a_commands_output_and_question_show_only_while_it_runs(repl, tmp_path):
    wait = "until [ -e go ]; do sleep 0.05; done"
    terminal = repl(
        shell(f"printf '1\\n2\\n3\\n4\\n5\\n6\\nContinue? [y/N] '; {wait}; exit 3"),
        {"text": "Done."},
    )

    terminal.type("build", "enter")
    text = terminal.until("  6\n  Continue? [y/N]\n", "· Ctrl-C stops")
    assert "  2\n" not in text
    (tmp_path / "project" / "go").touch()

    terminal.until("✗ Ran printf", "exit status 3 ·", "  Continue? [y/N]\n\nDone.")


def test_failed_tests_in_a_pipe_show_but_empty_searches_pass(repl, tmp_path):
    terminal = repl(
        shell("python3 test_x.py 2>&1 | tail -1"), shell("grep -r nothing ."), {"text": "Done."}
    )
    (tmp_path / "project" / "test_x.py").write_text("raise SystemExit('2 failed')\n")

    terminal.type("test", "enter")

    terminal.until("✗ Ran python3 test_x.py", "● Ran grep -r nothing .", "Done.")
    terminal.until("checked: python3 test_x.py failed")


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


def test_a_single_task_on_a_terminal_leaves_only_its_lines(repl, tmp_path):
    terminal = repl(
        shell("touch begun; until [ -e go ]; do sleep 0.05; done"),
        {"text": "Done."},
        arguments=("run", "build", *FULL),
        ready="Waiting for the model",
    )
    wait_for(terminal, tmp_path / "project" / "begun")
    terminal.until("Running touch begun", "s · Ctrl-C stops")
    (tmp_path / "project" / "go").touch()

    assert terminal.ended() == 0
    lines = [line for line in terminal.lines if line]
    assert lines[0].startswith("● Ran touch begun")
    assert lines[1:] == ["Done."]


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


def test_printing_over_the_prompt_never_shows_the_screen_without_it(repl):
    text = "\n\n".join(f"paragraph {number}" for number in range(30))
    terminal = repl({"text": text, "wire": {"chunk_delay_s": 0.02}})
    terminal.type("write", "enter")
    terminal.until("paragraph 0")
    without = 0
    deadline = time.monotonic() + 20
    while "· 1 step" not in terminal.text and time.monotonic() < deadline:
        terminal.read()
        without += not any(line.rstrip() == ">" for line in terminal.screen.display)

    assert "paragraph 29" in terminal.text
    # A read may end in the middle of a write; taken away and put back, it is missing five times and
    # more.
    assert without <= 3
