"""The prompt on a real terminal: one prompt_toolkit application from start to end.

Output goes above it and is never repainted. `layout` defines its looks, `keys` the keys; `state`
handles a message.
"""

import asyncio
import contextlib
import fcntl
import itertools
import os
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.defaults import create_output

from kode.cli.prompt.attach import BEING_TYPED, Pastes, query_of
from kode.cli.prompt.layout import PLAIN_STYLE, STYLE, Lines, layout_of
from kode.cli.prompt.state import PROMPT_ALIASES, PromptState
from kode.cli.prompt.submit import press, submit
from kode.cli.screen.menu import Menu
from kode.cli.screen.notify import FOCUS_OFF, FOCUS_ON, Notifier, takes_texts
from kode.cli.screen.screen import QUIET_S, links_work

SPIN_S = 0.1  # ten frames a second look smooth
REDRAW_S = 0.04  # a reply may stream faster than a terminal paints


@dataclass
class _Question:
    label: str
    answer: "asyncio.Future[str | None]"
    draft: Document
    menu: Menu | None = None


LEAVING_S = 2.0
"""Ctrl-C twice within this time, with nothing to stop, exits."""

ALT_S = 0.05
"""How long Esc waits for a key: a terminal sends Alt and a key as Esc and the key, at once."""

ESC_AGAIN_S = 0.6
"""A second Esc within this time edits the last message."""

TYPED_AHEAD_S = 0.5
"""How long after the start keys may arrive that were typed before it."""


def _input_waits(terminal: int) -> bool:
    """Whether input was typed already."""
    try:
        waiting = fcntl.ioctl(terminal, termios.FIONREAD, b"\0" * 4)
    except OSError:
        return False
    return any(waiting)


class _Application(Application[None]):
    """Finds its first row again in a terminal that wraps rows anew when its width changes."""

    def _on_resize(self) -> None:
        renderer, columns = self.renderer, self.output.get_size().columns
        screen, cursor = renderer.last_rendered_screen, renderer._cursor_pos
        # Those that show links are also known to wrap anew.
        if screen is not None and links_work(os.environ):
            rows = [screen.data_buffer[y] for y in range(cursor.y)]
            widths = [
                max((x for x, char in row.items() if char.char != " "), default=0) for row in rows
            ]
            above = sum(width // columns + 1 for width in widths)
            renderer._cursor_pos = Point(cursor.x % columns, above + cursor.x // columns)
        super()._on_resize()


class Editor:
    """The application and its state. `run` draws it and returns on exit."""

    def __init__(
        self,
        state: PromptState,
        *,
        history: History,
        completer: Completer,
        live: Lines,
        status: Callable[[int], list[tuple[str, str]]],
        color: bool,
        keys: Callable[["Editor"], KeyBindings],
    ) -> None:
        """`live` returns (style, line) for a width and a height; `status` the bottom line. `keys`
        creates the key bindings; editing keys exist without it."""
        self.state = state
        self.pastes = Pastes()
        self.last_key_at = float("-inf")
        self._typed_ahead_until = float("-inf")
        self._interrupted_at = self._escaped_at = self._answered_at = float("-inf")
        self.notifier = Notifier(self.control, lambda: self.last_key_at, takes_texts(os.environ))
        self._question: _Question | None = None
        self._repaint: asyncio.TimerHandle | None = None
        self._repainted_at = float("-inf")
        self._one_question = asyncio.Lock()
        self.buffer = Buffer(
            history=history,
            completer=ThreadedCompleter(completer),
            complete_while_typing=Condition(self._completes_now),
            enable_history_search=Condition(lambda: not self.asking),
            multiline=True,
            tempfile_suffix=".md",
            on_text_insert=lambda _: self._key(),
        )
        output = create_output(stdout=state.screen.stream)
        # Without a cursor position request, printing never has to wait, and no answer can end up in
        # the typed text.
        with contextlib.suppress(AttributeError):
            output.enable_cpr = False  # type: ignore[attr-defined]
        self.app = _Application(
            layout=layout_of(
                self.buffer,
                size=output.get_size,
                live=live,
                status=status,
                mark=self._mark,
                menu=self._menu_lines,
            ),
            key_bindings=keys(self),
            style=STYLE if color else PLAIN_STYLE,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            output=output,
            erase_when_done=True,
            include_default_pygments_style=False,
        )
        self.app.ttimeoutlen = ALT_S

    async def run(self, drawn: Callable[[], None]) -> None:
        """Shows the prompt until `stop`. `drawn` is called once it is on the screen."""

        def first_time(_: object) -> None:
            self.app.after_render -= first_time
            drawn()

        self.app.after_render += first_time
        if _input_waits(self.app.input.fileno()):
            self._typed_ahead_until = time.monotonic() + TYPED_AHEAD_S
        ticker = asyncio.ensure_future(self._spin())
        try:
            self.control(FOCUS_ON)
            await self.app.run_async(handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):
            # The terminal is gone: running work still ends in good order.
            return
        finally:
            ticker.cancel()
            self._give_up_question()
            with contextlib.suppress(OSError):
                self.control(FOCUS_OFF)

    def stop(self) -> None:
        """Removes the prompt from the screen and ends `run`."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def print_above(self, text: str) -> None:
        """Writes whole lines in the prompt's place, and the prompt below them."""
        painted = self.app.is_running and not self.app.is_done
        # A closed terminal must not fail the turn that writes to it.
        with contextlib.suppress(OSError), self._in_one_piece():
            if painted:
                self.app.renderer.erase(leave_alternate_screen=False)
            self.control(text)
            if painted:
                self.app._redraw()

    @contextlib.contextmanager
    def _in_one_piece(self) -> Iterator[None]:
        """Collects all output in the block into one write: otherwise the prompt would flicker."""
        output = self.app.output
        flush = output.flush
        output.flush = lambda: None  # type: ignore[method-assign]
        try:
            yield
        finally:
            output.flush = flush  # type: ignore[method-assign]
            flush()

    @property
    def away(self) -> bool:
        """Whether another program (a pager, an editor) has the terminal: nothing is printed."""
        return self.app._running_in_terminal

    async def lend_terminal(self, program: Callable[[], bool]) -> bool:
        """Runs a program that takes the whole terminal, in a thread, and returns its result. Output
        meanwhile is queued, and work continues."""
        from prompt_toolkit.application import run_in_terminal

        self.control(FOCUS_OFF)
        try:
            return await run_in_terminal(program, in_executor=True)
        finally:
            self.control(FOCUS_ON)
            self.redraw()

    def redraw(self) -> None:
        """Requests a repaint of the prompt and what is around it: one in `REDRAW_S`. A key repaints
        by itself, at once."""
        if self._repaint is None:
            wait_s = max(0.0, self._repainted_at + REDRAW_S - time.monotonic())
            self._repaint = asyncio.get_running_loop().call_later(wait_s, self._redraw_now)

    def _redraw_now(self) -> None:
        self._repaint, self._repainted_at = None, time.monotonic()
        self.app.invalidate()

    async def quiet(self, pause_s: float) -> None:
        """Returns when no key was pressed for `pause_s` (its keys went to the draft)."""
        while (left := self.last_key_at + pause_s - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def read_answer(self, label: str, menu: Menu | None = None) -> str | None:
        """Reads one line as an answer, or the value of a menu choice; None at end of input, or if
        the menu was left. The draft is back afterwards, with words that were not sent."""
        loop = asyncio.get_running_loop()
        async with self._one_question:
            question = _Question(label, loop.create_future(), self.buffer.document, menu)
            self._question = question
            self.clear()
            self.redraw()
            try:
                return await question.answer
            finally:
                if self._question is question:  # withdrawn
                    words = self.buffer.text if menu is not None and menu.writing else ""
                    self._restore_draft()
                    if words:
                        self.put_back(words)

    def _restore_draft(self) -> None:
        if self._question is not None:
            self.buffer.reset(self._question.draft)
            self._question = None
            self.redraw()

    @property
    def asking(self) -> bool:
        """Whether typed text is an answer."""
        return self._question is not None

    @property
    def menu(self) -> Menu | None:
        """The current menu."""
        return self._question.menu if self._question is not None else None

    def answer(self, text: str | None) -> None:
        """Answers the current question; what is typed from now on belongs to the draft."""
        if self._question is not None and not self._question.answer.done():
            self._question.answer.set_result(text)
            self._restore_draft()
            self._answered_at = time.monotonic()

    def put_back(self, text: str) -> None:
        """Puts a text back into the line, before what is being typed."""
        if self._question is not None:
            draft = self._question.draft.text
            self._question.draft = Document(f"{text}\n{draft}" if draft else text)
            return
        written = self.buffer.text
        self.buffer.reset(Document(f"{text}\n{written}" if written else text))

    def clear(self) -> None:
        """Empties the line; vi keys return to insert mode, because an answer or a message
        begins."""
        self.buffer.reset()
        self.app.vi_state.input_mode = InputMode.INSERT

    def set_text(self, text: str) -> None:
        """Replaces the text of the line."""
        self.buffer.document = Document(text)
        self.redraw()

    def use_vi(self) -> None:
        """Switches to vi keys; the prompt shows `:` in command mode."""
        self.app.editing_mode = EditingMode.VI
        # Esc alone is a separate key here; Alt+Enter comes as two keys at once.
        self.app.timeoutlen = 0.05

    @property
    def vi_commands(self) -> bool:
        """Whether vi is in command mode."""
        vi = self.app.editing_mode == EditingMode.VI
        return vi and self.app.vi_state.input_mode == InputMode.NAVIGATION

    def control(self, sequence: str) -> None:
        """Sends kode's own escape sequence to the terminal."""
        self.app.output.write_raw(sequence)
        self.app.output.flush()

    def accept(self, *, later: bool = False, is_pasted: bool = False) -> None:
        """Handles Enter: an answer, a new line after a trailing backslash or within pasted text, or
        a message; `later` queues it until the running turn ends."""
        if self.asking:
            self._accept_answer(self.buffer.text)
            return
        if time.monotonic() - self._answered_at < QUIET_S:  # "y, Enter" must not send the draft
            return
        if is_pasted:
            self.buffer.insert_text("\n")
            return
        if self._take_from_menu():
            return
        text = self.buffer.text
        if self.buffer.document.text_before_cursor.endswith("\\"):
            self.buffer.delete_before_cursor()
            self.buffer.insert_text("\n")
            return
        if not text.strip():
            return
        self.buffer.history.append_string(self.pastes.unfold(text))
        self.clear()
        submit(self.state, text, later=later)

    def _accept_answer(self, text: str) -> None:
        menu = self.menu
        if menu is None or menu.writing:
            self.answer(text)
        elif (choice := menu.highlighted(text)) is not None:
            if choice.key in menu.behind:
                menu.press(choice.key)
            else:
                self.answer(choice.value)

    def press_choice(self, key: str) -> None:
        """Handles a key of the menu: it answers at once."""
        self._key()
        if self.menu is not None and (choice := self.menu.press(key)) is not None:
            self.answer(choice.value)

    def escape(self) -> None:
        """Handles Esc, at once: closes a menu, un-queues a message, stops the turn. Soon after
        another that did not find a menu or a queue, it edits the last message."""
        now = time.monotonic()
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        elif self.asking:
            self._leave_menu()
            self._escaped_at = now
        elif now - self._escaped_at < ESC_AGAIN_S:
            self._escaped_at = float("-inf")
            self.edit_last()
        elif self.buffer.text:
            self._escaped_at = now
        elif not self.take_back_waiting():
            self._escaped_at = now
            self.state.interrupt()

    def edit_last(self) -> None:
        """Puts a queued message back into the line, or the last one, which the next replaces."""
        if self.take_back_waiting():
            return
        last = self.state.sent
        if last is None:
            self.state.hint("There is no message to edit yet.")
            return
        self.state.interrupt()
        self.buffer.reset(Document(last))
        self.state.replacing = True
        self.state.hint("Sending this replaces your last message and what followed it.")

    def take_back_waiting(self) -> bool:
        """Puts the newest queued message back into the line; False if there is none."""
        waiting = self.state.take_back()
        if waiting is not None:
            self.buffer.reset(Document(waiting))
        return waiting is not None

    def _leave_menu(self) -> None:
        """Goes back from words, or from a list behind a choice; else out of the menu."""
        menu = self.menu
        if menu is None or not menu.choices or not (menu.writing or menu.pressed):
            self.answer(None)
            return
        menu.write(False)
        self.buffer.reset()

    def _take_from_menu(self) -> bool:
        """Completes an unfinished word with the highlighted menu entry, else the first. True if the
        line must not be sent: a file name was inserted."""
        menu, typed = self.buffer.complete_state, self.buffer.document.text_before_cursor
        if menu is None or not menu.completions:
            return False
        is_command = typed.startswith("/")
        if menu.current_completion is None:
            mention = BEING_TYPED.search(typed)
            whole = typed if is_command or mention is None else query_of(mention)
            is_start = menu.completions[0].text.startswith(typed)  # what only holds it is chosen
            is_done = is_command and (" " in typed or not is_start)
            is_done |= whole in PROMPT_ALIASES or any(c.text == whole for c in menu.completions)
            if is_done:
                return False
            self.buffer.apply_completion(menu.completions[0])
        self.buffer.complete_state = None
        return not is_command

    def interrupt(self) -> None:
        """Handles Ctrl-C, and SIGINT from elsewhere: stops what runs, clears the line; twice,
        exits."""
        if self.state.interrupt():
            return
        if self.asking:
            self.answer(None)
        elif self.buffer.text:
            self.buffer.history.append_string(self.pastes.unfold(self.buffer.text))  # for Up
            self.clear()
            self.state.replacing = False
            # SIGINT is not a key: nothing else would repaint the line.
            self.redraw()
        elif time.monotonic() - self._interrupted_at < LEAVING_S:
            press(self.state, "/quit")
        else:
            self._interrupted_at = time.monotonic()
            self.state.hint("Press Ctrl-C again to quit.")

    def sends_line_feed(self) -> bool:
        """Whether a line feed means Enter: in an answer, and if it was typed before kode had the
        terminal, which then turned each Enter into a line feed."""
        return self.asking or time.monotonic() < self._typed_ahead_until

    def _key(self) -> None:
        self.last_key_at = time.monotonic()
        self._answered_at = self._escaped_at = float("-inf")

    def _menu_lines(self, width: int, height: int) -> list[str]:
        if self.menu is None:
            return []
        return self.menu.lines(self.state.screen.paint, self.buffer.text, width, height)

    def _give_up_question(self) -> None:
        if self._question is not None and not self._question.answer.done():
            self._question.answer.set_result(None)

    async def _spin(self) -> None:
        for frame in itertools.count():
            await asyncio.sleep(SPIN_S)
            still = self.asking and frame % 10  # one a second: a question may wait for hours
            if self.state.jobs.busy and self.state.screen.watched and not still:
                self.state.refresh()
            else:
                # Output queued while another program had the terminal.
                self.state.screen.flush()

    def _completes_now(self) -> bool:
        return not self.asking and completes_while_typing(self.buffer.document.text_before_cursor)

    def _mark(self) -> tuple[str, str]:
        """The prompt's sign, with its style."""
        if self._question is not None:
            pressed = self.menu.pressed if self.menu is not None else ""
            return "class:question", self._question.label + pressed
        return "class:prompt", ": " if self.vi_commands else "> "


def completes_while_typing(text_before_cursor: str) -> bool:
    """Whether the menu opens by itself: for a command and its arguments or after `@`, nowhere
    else."""
    if text_before_cursor.startswith("/"):
        return "\n" not in text_before_cursor
    return bool(BEING_TYPED.search(text_before_cursor))
