"""The keys of a question: what answers it, and what stays of one that disappears."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input

from kode.cli.prompt.editor import Editor
from kode.cli.prompt.keys import bindings
from kode.cli.prompt.state import PromptState
from kode.cli.screen.menu import WORD_S, Choice, Menu
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen


def question() -> Menu:
    choices = [Choice("yes", "yes", "y"), Choice("no", "no", "n")]
    return Menu(choices, selected=1, takes_words=True, pause_s=WORD_S)


@asynccontextmanager
async def prompt() -> AsyncIterator[tuple[Editor, PipeInput]]:
    screen = Screen(
        stream=io.StringIO(),
        rich_terminal=True,
        color=False,
        columns=lambda: 80,
        rows=lambda: 24,
    )
    state = PromptState(screen, Renderer(screen), {})
    with create_pipe_input() as keys, create_app_session(input=keys):
        editor = Editor(
            state,
            history=InMemoryHistory(),
            completer=DummyCompleter(),
            live=lambda width, height: [],
            status=lambda width: [("", "")],
            color=False,
            keys=bindings,
        )
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


async def test_a_key_answers_only_the_question_it_was_typed_for():
    async with prompt() as (editor, keys):
        gone = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        await typed(editor, keys, "y")
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)

        following = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        # Timers fire in order: the key's would have answered before this one.
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(WORD_S, later.set)
        await later.wait()
        assert not following.done()
        following.cancel()


async def test_words_of_a_withdrawn_question_stay_in_the_prompt():
    async with prompt() as (editor, keys):
        gone = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        await typed(editor, keys, "not there")
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)

        assert editor.buffer.text == "not there"


async def test_a_letter_at_enter_answers_at_once():
    async with prompt() as (editor, keys):
        asked = asyncio.ensure_future(editor.read_answer("answer: ", question()))
        await asyncio.sleep(0)
        keys.send_text("y\r")

        assert await asked == "yes"
