"""The keys of the prompt that people bring from other agents, in a real terminal."""

import time

import pytest

from kode.cli.prompt.editor import ALT_S

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]


def asked(terminal):
    terminal.type("ask", "enter")
    terminal.until("y  yes, once", "answer:")


def test_one_key_answers_a_question_which_folds_to_a_line(repl):
    terminal = repl()
    asked(terminal)

    terminal.type("y")

    text = terminal.until("The answer was once", "Allowed once: rm -rf build")
    assert "yes, once" not in text


def test_words_behind_tab_go_with_a_no(repl):
    terminal = repl()
    asked(terminal)

    terminal.type("\t", "please use trash", "enter")

    terminal.until("The answer was no: please use trash", "said to the model: please use trash")


@pytest.mark.parametrize(
    ("keys", "choice"),
    [
        (("enter",), "no"),
        (("esc",), "no"),
        (("a", "1"), "session"),
        (("up", "enter", "\x1b[B", "enter"), "session"),
        (("\x1b[B", "enter"), "once"),
        (("a2",), "project"),
    ],
)
def test_arrows_numbers_and_esc_choose(repl, keys, choice):
    terminal = repl()
    asked(terminal)

    terminal.type(*keys)

    terminal.until(f"The answer was {choice}")


def test_shift_tab_goes_through_the_modes(repl):
    terminal = repl()

    for mode in ("auto-edit", "plan", "ask"):
        terminal.type("\x1b[Z")
        terminal.until(f"{mode} · big-model")


def test_enter_takes_the_entry_of_the_menu(repl):
    terminal = repl()

    terminal.type("/mo")
    terminal.until("/model")
    terminal.type("enter")

    terminal.until("> /model", "Model: big-model")


def test_a_unique_beginning_is_enough(repl):
    terminal = repl()

    terminal.type("/mod", "enter")

    terminal.until("Model: big-model")


def test_enter_inserts_a_files_name_and_sends_nothing_yet(repl):
    terminal = repl()

    terminal.type("look at @calcu")
    terminal.until("calculator.py")
    terminal.type("enter")
    terminal.until("> look at @calculator.py")
    assert "I see" not in terminal.text
    terminal.type("enter")

    terminal.until("I see nothing")


def test_esc_that_closes_a_menu_begins_no_new_line(repl):
    terminal = repl()

    terminal.type("/cos")
    terminal.until("tokens and money")
    terminal.type("esc")
    terminal.until_gone("tokens and money")
    time.sleep(2 * ALT_S)  # no sooner, or it is Alt and Enter
    terminal.type("enter")

    terminal.until("> /cos", "today")


def test_alt_enter_starts_a_line_while_a_menu_is_open(repl):
    terminal = repl()

    terminal.type("/cos")
    terminal.until("tokens and money")
    terminal.type("\x1b\r", "x")

    terminal.until("> /cos\n  x")


def test_ctrl_c_twice_leaves(repl):
    terminal = repl()

    terminal.type("ctrl-c")
    terminal.until("Press Ctrl-C again to quit.")
    terminal.type("ctrl-c")

    terminal.until("left with 0")


def test_ctrl_r_shows_the_match_while_one_types(repl):
    terminal = repl()
    for prompt in ("echo", "count a"):
        terminal.type(prompt, "enter")
        terminal.until(f"> {prompt}", "$0.0123")
        terminal.until_gone("Ctrl-C stops")

    terminal.type("\x12", "ec")
    terminal.until("\n> echo\nhistory: ec")
    terminal.type("enter")
    terminal.until_gone("history: ")
    terminal.until("\n> echo\nask ·")


def test_rewind_picks_a_prompt_and_puts_it_back(repl):
    terminal = repl()
    for prompt in ("echo", "count a"):
        terminal.type(prompt, "enter")
        terminal.until(f"> {prompt}", "$0.0123")
        terminal.until_gone("Ctrl-C stops")

    terminal.type("/rewind", "enter")
    terminal.until("Rewind to", "› 2  count a", "1  echo")
    terminal.type("ech")
    terminal.until("› 1  echo\n  changed since: calc.py, notes.txt")
    terminal.type("enter")
    terminal.until("changed since: calc.py, notes.txt\n› b  files and conversation")
    terminal.type("c")

    terminal.until("back before 1: files False, conversation True", "\n> echo\nask ·")


def test_enter_steers_the_running_turn_and_alt_enter_waits(repl, tmp_path):
    terminal = repl()

    terminal.type("steer", "enter")
    terminal.until("Running sleep")
    terminal.type("use tabs", "enter")
    terminal.until("next step: use tabs (Up to edit)")
    terminal.type("echo", "\x1b\r")
    terminal.until("queued: echo (Up to edit)")
    (tmp_path / "project" / "go").touch()

    text = terminal.until("Steered by: use tabs", "You said: echo")
    assert text.index("\n> use tabs") < text.index("Steered by") < text.index("\n> echo")


def test_up_takes_back_what_waits_for_the_next_step(repl):
    terminal = repl()

    terminal.type("slow", "enter")
    terminal.until("Running sleep 60")
    terminal.type("use tabs", "enter")
    terminal.until("next step: use tabs")
    terminal.type("up")

    terminal.until_gone("next step")
    terminal.until("> use tabs")


def test_ctrl_t_unfolds_and_folds_the_thinking(repl, tmp_path):
    terminal = repl(width=100)
    terminal.type("ponder", "enter")
    terminal.until("Thinking…", "so on. At last.")
    assert "First the beginning" not in "\n".join(terminal.screen.display)

    terminal.type("\x14")
    terminal.until("First the beginning of it.", "Ctrl-T folds")
    terminal.type("\x14")
    terminal.until("Ctrl-T unfolds")

    (tmp_path / "project" / "go").touch()
    terminal.until("Thought", "Pondered.")
