"""The keys of the prompt that people bring from other agents, in a real terminal."""

import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]


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
