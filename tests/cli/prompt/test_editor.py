"""The keys of a question: what answers it, and what stays of one that disappears."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input

from kode.cli.prompt.editor import Editor
from kode.cli.prompt.keys import make_bindings
from kode.cli.prompt.slash import switch_vi
from kode.cli.prompt.state import PromptState
from kode.cli.screen.menu import WRITING, Choice, Menu
from kode.cli.screen.render import Renderer
from tests.cli.terminals import make_screen


def question() -> Menu:
    lasting = [Choice("this file", "this file", "1"), Choice("all files", "all files", "2")]
    choices = [Choice("yes", "yes", "y"), Choice("a", "always", "a"), Choice("no", "no", "n")]
    return Menu(choices, selected=2, takes_words=True, behind={"a": lasting})


@asynccontextmanager
async def prompt() -> AsyncIterator[tuple[Editor, PipeInput]]:
    screen = make_screen(rich_terminal=True)
    state = PromptState(screen, Renderer(screen), {})
    with create_pipe_input() as keys, create_app_session(input=keys):
        editor = Editor(state, make_bindings)
        drawn = asyncio.Event()
        running = asyncio.ensure_future(editor.run(drawn.set))
        try:
            await drawn.wait()
            yield editor, keys
        finally:
            editor.stop()
            await running


async def typed(editor: Editor, keys: PipeInput, text: str) -> None:
    """Types, and waits until it has arrived."""
    keys.send_text(text)
    while editor.buffer.text != text:
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("keys", "answer", "draft"),
    [
        ("y", "yes", ""),
        ("N", "no", ""),
        ("no, use tabs", "no", "o, use tabs"),
        ("y but in lib", "yes", " but in lib"),
        ("xa?2 and go on", "all files", " and go on"),
        ("a\x1b[A\r", "all files", ""),
        ("\r", "no", ""),
        ("\tyes, n a1\r", "yes, n a1", ""),
        ("\x1b[200~yes, and\nwith tests\x1b[201~n", "no", "yes, and\nwith tests"),
    ],
)
async def test_keys_answer_at_once_and_the_rest_is_draft(
    keys: str, answer: str, draft: str
) -> None:
    async with prompt() as (editor, terminal):
        asked = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        terminal.send_text(keys)

        assert await asked == answer
        assert editor.buffer.text == draft


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("a\x1b[13;2ub", "a\nb"),
        ("a\x1b[27;2;13~b", "a\nb"),
        ("ab\x1b[127;1uc", "ac"),
        ("a\x1b[97;5ub", "ba"),
        ("\x1b[200~a\x1b[13;1ub\x1b[201~", "a\nb"),
        ("a paste\rwithout marks\r\rstays one", "a paste\nwithout marks\n\nstays one"),
    ],
    ids=["CSI u", "modifyOtherKeys", "backspace", "control", "coded paste", "unmarked paste"],
)
async def test_coded_keys_and_pasted_line_ends_send_nothing(sent: str, text: str) -> None:
    async with prompt() as (editor, keys):
        keys.send_text(sent)
        while editor.buffer.text != text:
            await asyncio.sleep(0)


async def test_enter_after_an_answer_sends_no_draft() -> None:
    async with prompt() as (editor, keys):
        await typed(editor, keys, "half a mess")
        asked = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        keys.send_text("y\rage")

        assert await asked == "yes"
        assert editor.buffer.text == "half a message"


async def test_words_of_a_withdrawn_question_stay_in_the_prompt() -> None:
    async with prompt() as (editor, keys):
        withdrawn = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        keys.send_text("a\tnot there")
        while editor.buffer.text != "not there":
            await asyncio.sleep(0)
        assert WRITING in "".join(editor.menu.lines(editor.state.screen.paint, "", 80, 10))
        withdrawn.cancel()
        await asyncio.gather(withdrawn, return_exceptions=True)
        assert editor.buffer.text == "not there"


@pytest.mark.parametrize("begun", ["a", "\tuse tabs"])
async def test_esc_goes_back_and_then_closes_the_question(begun: str) -> None:
    async with prompt() as (editor, keys):
        asked = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        keys.send_text(f"{begun}\x1b\x1b")

        assert await asked is None
        assert editor.buffer.text == ""


async def test_esc_stops_the_turn_and_a_second_edits() -> None:
    async with prompt() as (editor, keys):
        state = editor.state
        state.sent = "count the files"
        ended = asyncio.Event()
        state.start_job(asyncio.Event().wait, then=lambda stopped: ended.set())
        keys.send_text("\x1b")
        await ended.wait()
        assert editor.buffer.text == ""

        keys.send_text("\x1b\x1b")  # however late the first was seen, these two are at once
        while not state.replacing:
            await asyncio.sleep(0)
        assert editor.buffer.text == "count the files"


async def test_vi_keys_are_switched_on_and_off() -> None:
    async with prompt() as (editor, keys):
        editor.state.editor = editor
        await switch_vi(editor.state, "")
        await typed(editor, keys, "one two")
        keys.send_text("\x1bdd")
        while editor.buffer.text:
            await asyncio.sleep(0)
        assert editor.switch_vi() is False


async def test_up_takes_back_the_message_that_waits() -> None:
    async with prompt() as (editor, keys):
        editor.state.queued, editor.state.steering = ["last"], ["now"]
        keys.send_text("\x1b[A")
        while editor.buffer.text != "last":
            await asyncio.sleep(0)
        assert editor.state.queued == []


async def test_alt_and_a_key_are_no_esc() -> None:
    async with prompt() as (editor, keys):
        asked = asyncio.ensure_future(editor.read_answer("name: "))
        await asyncio.sleep(0)
        keys.send_text("one two\x1bb\x1bdthree\r")

        assert await asked == "one three"


async def test_the_row_that_enter_takes_is_marked() -> None:
    async with prompt() as (editor, keys):

        def marked() -> list[str]:
            editor.app._redraw()
            rows = editor.app.renderer.last_rendered_screen.data_buffer.values()
            lit = [[char.char for char in row.values() if "current" in char.style] for row in rows]
            return [word for row in lit for word in "".join(row).split()]

        about = SimpleNamespace(summary="")
        editor.state.commands = {"/new": about, "/resume": about, "/review": about}
        keys.send_text("/re")
        while not (menu := editor.buffer.complete_state) or not menu.completions:
            await asyncio.sleep(0)

        assert marked() == ["/resume"]
        editor.buffer.complete_previous()
        assert marked() == ["/review"]


async def test_typed_text_reorders_no_line_and_emoji_are_wide() -> None:
    async with prompt() as (editor, keys):
        await typed(editor, keys, "a\u202eb🇩🇪👍🏽c")
        editor.app._redraw()
        row = editor.app.renderer.last_rendered_screen.data_buffer[2]

        assert "".join(row[at].char for at in sorted(row)).startswith("> a<202e>b🇩🇪👍🏽c")
        assert editor.app.renderer._cursor_pos.x == len("> a<202e>b🇩🇪12c")


@pytest.mark.parametrize(("variable", "rows"), [("TMUX", 6), ("UNKNOWN_TERMINAL", 3)])
async def test_a_narrower_terminal_is_cleared_from_the_first_row(
    monkeypatch: pytest.MonkeyPatch, variable: str, rows: int
) -> None:
    for name in ("TMUX", "TERM", "TERM_PROGRAM", "VTE_VERSION", "KITTY_WINDOW_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    async with prompt() as (editor, keys):
        await typed(editor, keys, "a" * 130)  # 78 of them in the first of two rows
        editor.app._redraw()
        output, moved = editor.app.output, list[int]()
        monkeypatch.setattr(output, "get_size", lambda: Size(rows=24, columns=40))
        monkeypatch.setattr(output, "cursor_up", moved.append)
        editor.app._on_resize()
        assert moved[0] == rows
