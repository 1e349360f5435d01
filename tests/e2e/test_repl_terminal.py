"""The REPL in a real terminal, over a conversation that plays written turns."""

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.pictures import png

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]


def test_a_task_typed_before_the_prompt_appears_is_sent(repl):
    # The terminal still turns Enter into a line feed then.
    terminal = repl(typed_ahead="fix it\r")

    assert "> fix it" in terminal.until("2 steps · 12.3k in")


@pytest.mark.smoke
def test_a_turn_settles_above_the_prompt_and_resume_is_explained(repl):
    terminal = repl(height=60)

    terminal.type("fix it", "enter")
    text = terminal.until("2 steps · 12.3k in")
    assert "> fix it" in text
    assert "● Edited calc.py · 1 change · 1.5s" in text
    assert "I fixed add. The cause:" in text
    assert " • it subtracted" in text
    terminal.until_gone("Ctrl-C stops")
    terminal.type("ctrl-d")

    text = terminal.until("left with 0, closed True")
    assert "Resume with: kode -r 20260101-000000-abcdef" in text
    assert terminal.ended() == 0


@pytest.mark.parametrize("width", [20, 80])
def test_every_streamed_word_is_on_the_screen_exactly_once(repl, width):
    terminal = repl(width=width, height=16)

    terminal.type("fix it", "enter")
    terminal.until_gone("· 1.5s  ")
    text = terminal.until("12.3k" if width == 80 else "2 steps")

    assert text.count("I fixed add") == 1
    assert text.count("subtracted") == 1
    assert text.count("return a + b") == 2


def test_ctrl_c_stops_the_turn_and_leaves_a_usable_prompt(repl):
    terminal = repl()

    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("ctrl-c", "ctrl-c")
    terminal.until("Stopped.")
    terminal.type("echo", "enter")
    terminal.until("You said: echo")
    terminal.type("ctrl-d")

    terminal.until("cancelled 1")


def test_ctrl_c_clears_the_line_and_sigint_does_no_harm(repl):
    terminal = repl()

    terminal.type("some words")
    terminal.until("> some words")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.until_gone("some words")
    terminal.type("ctrl-c")
    terminal.until("Press Ctrl-C again to quit.")
    terminal.type("/quit", "enter")

    terminal.until("left with 0")


def test_typing_during_a_turn_is_shown_and_editable_until_sent(repl):
    terminal = repl()

    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("echo", "enter")
    terminal.until("next step: echo (Up to edit)")
    terminal.type("up")
    terminal.until_gone("next step:")
    terminal.until("> echo")
    terminal.type("enter")
    terminal.until("next step: echo")
    terminal.type("ctrl-c")
    terminal.until("Stopped.", "> echo")
    terminal.type("enter")

    terminal.until("You said: echo")


def test_a_pasted_block_is_folded_but_sent_whole(repl):
    terminal = repl()

    terminal.type("count ", "\x1b[200~one\ntwo\nthree\nfour\nfive\nsix\nseven\x1b[201~")
    terminal.until("> count [pasted 7 lines]")
    terminal.type("enter")

    terminal.until("lines: 7")


def test_new_lines_come_from_alt_enter_and_a_trailing_backslash(repl):
    terminal = repl()

    terminal.type("count a\\", "enter", "b", "\x1b\r", "c")
    terminal.until("> count a\n  b\n  c")
    terminal.type("enter")

    terminal.until("lines: 3")


def test_up_searches_the_history_of_earlier_sessions_which_is_private(repl, tmp_path):
    first = repl()
    first.type("echo", "enter")
    first.until("You said: echo")
    first.type("/cost", "enter", "ctrl-d")
    first.until("left with 0")

    second = repl()
    second.type("ec", "up")
    second.until("> echo")

    history = tmp_path / "home" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_esc_stops_the_turn_on_an_empty_line_only(repl):
    terminal = repl()

    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("esc")
    terminal.until("Stopped.")
    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("draft", "esc", "!")
    text = terminal.until("> draft!")
    assert "Running sleep 60" in text
    terminal.type("ctrl-c")
    terminal.until_gone("Running sleep 60")


def test_tab_completes_commands_and_files(repl):
    terminal = repl()

    terminal.type("/perm")
    terminal.until(" /permissions ")
    terminal.type("\t")
    terminal.until("> /permissions")
    terminal.type(" pl")
    terminal.until(" plan ")
    terminal.type("\t")
    terminal.until("> /permissions plan")
    terminal.type("enter")
    terminal.until("Mode: plan.")
    terminal.type("see @calc")
    terminal.until(" calculator.py")
    terminal.type("\t")

    terminal.until("> see @calculator.py")


def test_ctrl_x_ctrl_e_opens_the_persons_editor(repl, tmp_path):
    script = tmp_path / "my-editor"
    script.write_text('#!/bin/sh\ncp "$1" seen; stat -c %a "$1" > mode; echo "count b" > "$1"\n')
    script.chmod(0o755)
    terminal = repl(EDITOR=str(script))

    terminal.type("count ", "\x1b[200~one\ntwo\nthree\nfour\nfive\nsix\x1b[201~", "\x18\x05")
    terminal.until("> count b")
    terminal.type("enter")

    terminal.until("lines: 1")
    project = tmp_path / "project"
    assert (project / "seen").read_text() == "count one\ntwo\nthree\nfour\nfive\nsix"
    assert (project / "mode").read_text() == "600\n"


def test_a_dropped_picture_goes_with_the_message(repl, tmp_path):
    (tmp_path / "my shot.png").write_bytes(png())
    terminal = repl()

    terminal.type("look ", f"\x1b[200~{tmp_path}/my\\ shot.png\x1b[201~", " and")
    terminal.until("> look [image my shot.png] and")
    terminal.type("enter")

    terminal.until("with the image my shot.png, 4×3, 1 KB", "I see my shot.png.")


def test_the_keys_of_vi_where_the_config_says_so(repl):
    terminal = repl(VI_MODE="1")

    terminal.type("echox")
    terminal.until("> echox")
    terminal.type("esc")
    terminal.until(": echox")
    terminal.type("xu", "x", "enter")
    terminal.until("You said: echo")
    terminal.until_gone("Ctrl-C stops")
    terminal.type("esc")
    terminal.until("\n:\n")
    terminal.type("esc")
    terminal.until(": echo\n")
    terminal.type("k", "A", "!")

    terminal.until("> echo!")


def test_keys_typed_before_a_question_do_not_answer_it(repl):
    terminal = repl()

    terminal.type("ask", "enter", "y", "enter", "y")
    terminal.until("y  yes, once", "answer:", "next step: y")
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
    terminal.until("2 steps · 12.3k in")
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


def test_piped_input_and_output_do_not_crash(tmp_path):
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.fake_conversation"],
        input="echo\n/cost\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "KODE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "You said: echo" in done.stdout
    assert "\x1b" not in done.stdout
