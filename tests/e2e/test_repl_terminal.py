"""The REPL in a real terminal, over a conversation that plays written turns."""

import os
import signal
import stat

import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]


def test_a_task_typed_before_the_prompt_appears_is_sent(repl):
    # The terminal still turns Enter into a line feed then.
    terminal = repl(typed_ahead="fix it\r")

    assert "> fix it" in terminal.until("s · $0.0123")


@pytest.mark.smoke
def test_a_turn_settles_above_the_prompt_and_resume_is_explained(repl):
    terminal = repl(height=60)

    terminal.type("fix it", "enter")
    text = terminal.until("s · $0.0123")
    assert "> fix it" in text
    assert "● Edited calc.py · 1 change · 1.5s" in text
    assert "I fixed add. The cause:" in text
    assert " • it subtracted" in text
    terminal.until_gone("Ctrl-C to stop")
    terminal.type("ctrl-d")

    text = terminal.until("left with 0, closed True")
    assert "kode -r 20260101-000000-abcdef" in text
    assert terminal.ended() == 0


def test_ctrl_c_and_esc_stop_turns_or_clear_lines(repl):
    terminal = repl()

    terminal.type("some words")
    terminal.until("> some words")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.until_gone("some words")
    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("esc")
    terminal.until("Stopped.")
    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("draft", "esc", "!")
    assert "Running sleep 60" in terminal.until("> draft!")  # Esc stops from an empty line only
    terminal.type("ctrl-c")
    terminal.until_count("Stopped.", 2)
    terminal.type("ctrl-c")
    terminal.until_gone("> draft!")
    terminal.type("echo", "enter")
    terminal.until("You said: echo")
    terminal.until_gone("Ctrl-C to stop")
    terminal.type("ctrl-c")
    terminal.until("Press Ctrl-C again to quit.")
    terminal.type("ctrl-c")

    terminal.until("left with 0", "cancelled 2")


def test_enter_steers_the_running_turn_and_alt_enter_waits(repl, tmp_path):
    terminal = repl()

    terminal.type("steer", "enter")
    terminal.until("Running sleep")
    terminal.type("use tabs", "enter")
    terminal.until("queued: use tabs (↑ to edit)")
    terminal.type("echo", "\x1b\r")
    terminal.until("queued: echo (↑ to edit)")
    (tmp_path / "project" / "go").touch()

    text = terminal.until("Steered by: use tabs", "You said: echo")
    assert text.index("\n> use tabs") < text.index("Steered by") < text.index("\n> echo")


def test_lines_come_from_keys_a_paste_and_an_editor(repl, tmp_path):
    script = tmp_path / "my-editor"
    script.write_text('#!/bin/sh\ncp "$1" seen; stat -c %a "$1" > mode; echo "count b" > "$1"\n')
    script.chmod(0o755)
    terminal = repl(EDITOR=str(script))

    terminal.type("count a\\", "enter", "b", "\x1b\r", "c")
    terminal.until("> count a\n  b\n  c")
    terminal.type("enter")
    terminal.until("lines: 3")
    terminal.type("count ", "\x1b[200~one\ntwo\nthree\nfour\nfive\nsix\nseven\x1b[201~")
    terminal.until("> count [pasted 7 lines]")
    terminal.type("enter")
    terminal.until("lines: 7")
    terminal.type("count ", "\x1b[200~one\ntwo\nthree\nfour\nfive\nsix\x1b[201~", "\x18\x05")
    terminal.until("> count b")
    terminal.type("enter")

    terminal.until("lines: 1")
    project = tmp_path / "project"
    assert (project / "seen").read_text() == "count one\ntwo\nthree\nfour\nfive\nsix"
    assert (project / "mode").read_text() == "600\n"


def test_up_and_ctrl_r_search_the_history_which_is_private(repl, tmp_path):
    first = repl()
    for prompt in ("echo", "count a"):
        first.type(prompt, "enter")
        first.until(f"> {prompt}", "$0.0123")
        first.until_gone("Ctrl-C to stop")
    first.type("/cost", "enter", "ctrl-d")
    first.until("left with 0")

    second = repl()
    second.type("ec", "up")
    second.until("> echo")
    second.type("ctrl-c", "\x12", "cou")
    second.until("\n> count a\nhistory: cou")

    history = tmp_path / "home" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_tab_and_enter_complete_commands_and_files(repl):
    terminal = repl()

    terminal.type("/perm")
    terminal.until(" /permissions ")
    terminal.type("\t")
    terminal.until("> /permissions")
    terminal.type(" plan", "enter")
    terminal.until("Mode: plan.")
    for mode in ("ask", "auto-edit", "plan"):
        terminal.type("\x1b[Z")
        terminal.until(f"{mode} (Shift-Tab) · big-model")
    terminal.type("/und")
    terminal.until(" /undo ")
    terminal.type("enter")
    terminal.until("> /undo", "restored calc.py")
    terminal.type("see @calc")
    terminal.until(" calculator.py")
    terminal.type("\t")

    terminal.until("> see @calculator.py")


def test_keys_typed_before_a_question_do_not_answer_it(repl):
    terminal = repl()

    terminal.type("ask", "enter", "y", "enter", "y")
    terminal.until("y  yes, once", "n  no", "queued: y")
    terminal.type("enter")

    text = terminal.until("The answer was no")
    assert "Allowed" not in text
    terminal.until("> y\n")


def test_output_of_the_model_cannot_control_the_terminal(repl):
    terminal = repl()

    terminal.type("evil", "enter")
    terminal.until("beforeafter done")

    assert b"title" not in terminal.raw
    assert "kode in" in terminal.text


def test_a_dumb_terminal_gets_no_escape_sequence_at_all(repl):
    terminal = repl(TERM="dumb")

    terminal.type("fix it", "enter")
    terminal.until("s · $0.0123")
    terminal.type("ask", "enter")
    terminal.until("answer:")
    terminal.type("y", "enter")
    terminal.until("The answer was once")
    terminal.type("slow", "enter")
    terminal.until("> slow")
    terminal.type("ctrl-c")
    terminal.until("Stopped.")
    terminal.type("ctrl-d")

    terminal.until("left with 0")
    assert b"\x1b" not in terminal.raw
