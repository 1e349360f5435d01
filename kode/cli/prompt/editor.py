"""The prompt on a real terminal: one prompt_toolkit application from start to end.

Output goes above it and is never repainted. `keys` binds the keys; `submit` handles a message.
"""

import asyncio
import contextlib
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from prompt_toolkit import layout
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import _CHAR_SIZES_CACHE
from prompt_toolkit.widgets import SearchToolbar

from kode import durable, paths
from kode.cli.prompt.attach import BEING_TYPED, FileIndex, format_mention, mention_query
from kode.cli.prompt.state import PROMPT_ALIASES, PromptState
from kode.cli.prompt.submit import run_key_command, submit
from kode.cli.screen.lines import EMOJI_PARTS, clip, one_line
from kode.cli.screen.menu import Menu
from kode.cli.screen.progress import status_line
from kode.cli.screen.screen import QUIET_S, fill_bands
from kode.credentials import redact
from kode.errors import StorageError
from kode.values import dataclass

SPIN_S = 0.1  # ten frames a second look smooth
REDRAW_S = 0.04  # a reply may stream faster than a terminal paints
SETTLED_S = 0.3  # tmux tells of further changes of the size up to 0.25 s after it made them
MAX_INPUT_ROWS = 12  # half of a terminal with 24 rows

RULE_FROM_ROWS = 12  # on a smaller terminal the rows are for the reply
ABOUT_COLUMNS = 60  # beside a name, in 80 columns
LEAVING_S = 2.0  # Ctrl-C twice within this time, with nothing to stop, exits
ALT_S = 0.03  # how long Esc waits for a key: Alt and a key come as Esc and the key, at once
CHORD_S = 1.0  # how long the first of two keys waits for the second; in vi mode `ALT_S`
ESC_AGAIN_S = 0.6  # a second Esc within this time edits the last message
ERASE_DOWN = "\x1b[K\x1b[C\x1b[J\r"
"""Erases from a row on. Without the step to the right, tmux would scroll up what it erases from its
first row on: the reply would be in the scrollback once more."""
_PLAIN = "noreverse bg:default fg:default"
STYLE = Style.from_dict(
    {
        "dim": "dim",
        "completion-menu": _PLAIN,
        "completion-menu.completion": _PLAIN,
        "completion-menu.meta.completion": f"{_PLAIN} dim",
        "completion-menu.meta.completion.current": f"{_PLAIN} dim",
        "scrollbar.background": _PLAIN,
    }
)
# As most terminals draw them: flags are two columns wide, and so is an emoji with a skin tone.
_CHAR_SIZES_CACHE.update(dict.fromkeys(map(chr, range(0x1F1E6, 0x1F200)), 1))
_CHAR_SIZES_CACHE.update(dict.fromkeys(map(chr, range(0x1F3FB, 0x1F400)), 0))
# Shown as code points, like controls, so that no paste or server's text reorders the screen.
_REORDERING = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
Char.display_mappings |= {chr(mark): f"<{mark:x}>" for mark in _REORDERING}
_REWRAPS = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "TERM_PROGRAM")
"""Environment variables of terminals that rewrap rows when their width changes."""


class SharedHistory(FileHistory):
    """The typed messages, newest last, in one file to which all sessions append."""

    def append_string(self, string: str) -> None:
        """Stores one message, unless it begins with a space or repeats the last one."""
        if not string.startswith((" ", "\t")) and string != next(iter(self._loaded_strings), None):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Appends one message, credentials masked."""
        with contextlib.suppress(OSError):
            super().store_string(redact(string))


def open_history(path: Path) -> History:
    """Returns the history shared by all sessions, readable by its owner alone; one in memory if the
    file cannot be written."""
    try:
        durable.make_folder(path.parent)
        with durable.open_for_append(path) as file:
            os.fchmod(file.fileno(), 0o600)
    except (OSError, StorageError):
        return InMemoryHistory()
    return SharedHistory(str(path))


@dataclass(eq=False)
class PromptCompleter(Completer):
    """Completes the text before the cursor: commands at the start of a message, `@files` and
    `@folders/` anywhere. Runs in a thread."""

    state: PromptState
    files: FileIndex

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yields the completions, best first; none if nothing can be completed."""
        before = document.text_before_cursor
        if typed := BEING_TYPED.search(before):
            start = typed.start() + typed[0].index("@") + 1 - len(before)
            query = mention_query(typed)
            for path in self.files.find(query):
                if path != query or not path.endswith("/"):  # omits a folder typed whole
                    yield Completion(format_mention(path), start_position=start, display=path)
        elif before.startswith("/") and not re.search(r"\s", before):
            commands = self._list_commands()
            for name in self._find_matches(before, commands):
                yield Completion(name, start_position=-len(before), display_meta=commands[name])

    def _list_commands(self) -> Mapping[str, str]:
        """Returns every command that may be typed now, those of extensions included → its summary.
        Reads files before the first turn."""
        summaries = {name: command.summary for name, command in self.state.commands.items()}
        if (opened := self.state.opened) is not None:
            extensions = opened.extensions
            added = {f"/{name}": about for name, about in opened.list_offered().items()}
            added |= extensions.commands() if extensions is not None else {}
            for name in sorted(added.keys() - summaries.keys()):
                summaries[name] = clip(one_line(added[name]), ABOUT_COLUMNS)
        return summaries

    def _find_matches(self, typed: str, words: Mapping[str, str]) -> Iterable[str]:
        """Returns words that begin with what was typed, then others with it; else similar ones."""
        word = typed[1:].lower()
        begins = [name for name in words if name[1:].lower().startswith(word)]
        holds = [name for name in words if word in name[2:].lower() and name not in begins]
        return begins + (holds if len(word) > 1 else []) or get_close_matches(typed, words)


@dataclass
class _PromptQuestion:
    label: str
    answer: "asyncio.Future[str | None]"
    draft: Document
    menu: Menu | None = None


class _Application(Application[None]):
    """An application that finds its first row again after the terminal has rewrapped its rows."""

    resized_at = float("-inf")
    """When the size of the terminal last changed."""

    def _on_resize(self) -> None:
        renderer, columns = self.renderer, self.output.get_size().columns
        screen, cursor = renderer.last_rendered_screen, renderer._cursor_pos
        is_styled, self.resized_at = renderer._style_string_has_style, time.monotonic()
        rewraps = any(map(os.environ.get, _REWRAPS))
        if screen is not None and is_styled is not None and rewraps:
            rows = (screen.data_buffer[y].items() for y in range(cursor.y))
            used = ([x for x, it in row if it.char != " " or is_styled[it.style]] for row in rows)
            above = sum(max(places, default=0) // columns + 1 for places in used)
            renderer._cursor_pos = Point(cursor.x % columns, above + cursor.x // columns)
        super()._on_resize()


class Editor:
    """The prompt_toolkit application and its state. `run` draws it and returns on exit."""

    def __init__(
        self,
        state: PromptState,
        keys: Callable[["Editor"], KeyBindings] = lambda editor: KeyBindings(),
    ) -> None:
        """`keys` creates the key bindings; editing keys exist without it."""
        self.state = state
        self._key_at = self._interrupted_at = self._escaped_at = float("-inf")
        self._answered_at = self._repainted_at = float("-inf")
        self._question: _PromptQuestion | None = None
        self._repaint: asyncio.TimerHandle | None = None
        self._one_question = asyncio.Lock()
        self.buffer = Buffer(
            history=open_history(paths.history_file(paths.kode_home())),
            completer=ThreadedCompleter(PromptCompleter(state, FileIndex(state.folder))),
            complete_while_typing=Condition(self._completes_now),
            enable_history_search=Condition(lambda: not self.asking),
            multiline=True,
            on_text_insert=lambda _: self._note_key(),
        )
        output = create_output(stdout=state.screen.stream)
        # Without a cursor position request, printing never has to wait, and no answer can end up in
        # the typed text.
        with contextlib.suppress(AttributeError):
            output.enable_cpr = False  # type: ignore[attr-defined]
        output.erase_down = lambda: output.write_raw(ERASE_DOWN)  # type: ignore[method-assign]
        self.app = _Application(
            layout=self._make_layout(),
            key_bindings=keys(self),
            style=STYLE,
            color_depth=None if state.screen.color else ColorDepth.DEPTH_1_BIT,
            output=output,
            erase_when_done=True,
            include_default_pygments_style=False,
        )
        self.app.ttimeoutlen = ALT_S
        self.app.before_render += self._mark_completion

    def _make_layout(self) -> layout.Layout:
        """From top to bottom: live lines, a menu, the input line, completions, the status line."""

        def size() -> tuple[int, int]:
            terminal = self.app.output.get_size()
            # One column stays free: a full last column makes some terminals wrap.
            return max(terminal.columns, 10) - 1, max(terminal.rows, 4)

        def live_lines() -> list[tuple[str, str]]:
            columns, rows = size()
            return self.state.live_lines(columns, max(rows - 6, 2))

        paint = self.state.screen.paint

        def live_fragments() -> ANSI:
            lines = "\n".join(paint(style, text) for style, text in live_lines())
            return ANSI(EMOJI_PARTS.sub("", fill_bands(lines, size()[0])))

        def status_fragments() -> ANSI:
            parts = status_line(self.state.opened, size()[0]) if self.state.opened else []
            return ANSI("".join(paint(style, text) for style, text in parts))

        def menu_lines() -> list[str]:
            columns, rows = size()
            room = max(rows - (4 if rows >= RULE_FROM_ROWS else 2), 3)
            return self.menu.lines(paint, self.buffer.text, columns, room) if self.menu else []

        def mark(line: int, wrapped: int) -> StyleAndTextTuples:
            text = "> "
            if self._question is not None:
                text = self.menu.opened + text if self.menu is not None else self._question.label
            return [("bold", "  " if line or wrapped else text)]

        def window(text: Callable[[], object]) -> layout.Window:
            control = layout.FormattedTextControl(text)  # type: ignore[arg-type]
            return layout.Window(control, wrap_lines=False, dont_extend_height=True)

        search = SearchToolbar(backward_search_prompt="history: ", forward_search_prompt="newer: ")
        line = layout.Window(
            layout.BufferControl(
                self.buffer, search_buffer_control=search.control, preview_search=True
            ),
            height=lambda: Dimension(min=1, max=min(MAX_INPUT_ROWS, size()[1] - 3)),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=mark,
        )
        live = window(live_fragments)
        choices = window(lambda: ANSI(fill_bands("\n".join(menu_lines()), size()[0])))
        rule = window(lambda: [("class:dim", "\n" + "─" * size()[0])])
        status = layout.Window(layout.FormattedTextControl(status_fragments), height=1)
        rows: list[layout.AnyContainer] = [
            layout.ConditionalContainer(live, Condition(lambda: bool(live_lines()))),
            layout.ConditionalContainer(choices, Condition(lambda: self.menu is not None)),
            layout.ConditionalContainer(rule, Condition(lambda: size()[1] >= RULE_FROM_ROWS)),
            line,
            search,
            CompletionsMenu(max_height=8, scroll_offset=1),
            layout.ConditionalContainer(status, ~has_completions),
        ]
        return layout.Layout(
            layout.HSplit(rows, align=layout.VerticalAlign.TOP), focused_element=line
        )

    async def run(self, drawn: Callable[[], None]) -> None:
        """Shows the prompt until `stop`. `drawn` is called once it is on the screen."""

        def first_time(_: object) -> None:
            self.app.after_render -= first_time
            drawn()

        self.app.after_render += first_time
        ticker = asyncio.ensure_future(self._animate_spinner())
        try:
            await self.app.run_async(handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):
            # The terminal is gone: running work still ends in good order.
            return
        finally:
            ticker.cancel()
            if self._question is not None and not self._question.answer.done():
                self._question.answer.set_result(None)

    def stop(self) -> None:
        """Removes the prompt from the screen and ends `run`."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def print_above(self, text: str) -> None:
        """Writes whole lines where the prompt stood, and redraws the prompt below them, all in one
        write: otherwise the prompt would flicker."""
        output, flush = self.app.output, self.app.output.flush
        output.flush = lambda: None  # type: ignore[method-assign]
        with contextlib.suppress(OSError):  # a closed terminal must not fail the turn
            try:
                if is_drawn := self.app.is_running and not self.app.is_done:
                    self.app.renderer.erase(leave_alternate_screen=False)
                self.control(text)
                if is_drawn:
                    self.app._redraw()
            finally:
                output.flush = flush  # type: ignore[method-assign]
                flush()

    @property
    def away(self) -> bool:
        """Whether the person's text editor has the terminal, so that nothing may be printed."""
        return self.app._running_in_terminal

    @property
    def is_resizing(self) -> bool:
        """Whether the size of the terminal is changing, so that nothing should be painted."""
        return time.monotonic() - self.app.resized_at < SETTLED_S

    async def edit_text(self, text: str) -> str:
        """Lets the person edit a text in `$VISUAL`, `$EDITOR` or a common editor, in a private
        file; returns what they saved."""
        buffer = Buffer(document=Document(text), tempfile_suffix=".md")
        await buffer.open_in_editor()
        return buffer.text

    def redraw(self) -> None:
        """Requests a repaint of the prompt, at most one per `REDRAW_S`. A key repaints at once."""
        if self._repaint is None:
            wait_s = max(0.0, self._repainted_at + REDRAW_S - time.monotonic())
            self._repaint = asyncio.get_running_loop().call_later(wait_s, self._redraw_now)

    def _redraw_now(self) -> None:
        self._repaint, self._repainted_at = None, time.monotonic()
        if self.is_resizing:
            self.redraw()
        else:
            self.app.invalidate()

    def idle_s(self) -> float:
        """Returns how many seconds ago a key was pressed."""
        return time.monotonic() - self._key_at

    async def quiet(self, pause_s: float) -> None:
        """Waits until no key was pressed for `pause_s` seconds; keys until then edit the draft."""
        while (left := pause_s - self.idle_s()) > 0:
            await asyncio.sleep(left)

    async def read_answer(self, label: str, menu: Menu | None = None) -> str | None:
        """Reads a line, or the value of a menu choice; None at end of input, or if the person
        leaves the menu. Restores the draft then, preceded by any words of a withdrawn question."""
        loop = asyncio.get_running_loop()
        async with self._one_question:
            question = _PromptQuestion(label, loop.create_future(), self.buffer.document, menu)
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
        """Puts a text back before what is in the line; during a question, before the draft."""
        draft = self._question.draft.text if self._question is not None else self.buffer.text
        document = Document(f"{text}\n{draft}" if draft else text)
        if self._question is not None:
            self._question.draft = document
        else:
            self.buffer.reset(document)

    def clear(self) -> None:
        """Empties the line; vi keys return to insert mode."""
        self.buffer.reset()
        self.app.vi_state.input_mode = InputMode.INSERT

    def switch_vi(self) -> bool:
        """Switches to vi keys, or back; returns whether they are vi's now."""
        is_vi = self.app.editing_mode != EditingMode.VI
        self.app.editing_mode = EditingMode.VI if is_vi else EditingMode.EMACS
        # Esc alone is a separate key in vi; Alt+Enter comes as two keys at once.
        self.app.timeoutlen = ALT_S if is_vi else CHORD_S
        return is_vi

    def control(self, sequence: str) -> None:
        """Sends kode's own escape sequence to the terminal."""
        self.app.output.write_raw(sequence)
        self.app.output.flush()

    def accept(self, *, later: bool = False, is_pasted: bool = False) -> None:
        """Handles Enter: answers a question, breaks the line in a paste or after a backslash,
        completes a file name, or sends the message, with `later` only after the running turn."""
        text = self.buffer.text
        menu = self.menu
        if self.asking and (menu is None or menu.writing):
            self.answer(text)
        elif menu is not None:
            choice = menu.find_highlighted(text)
            if choice is not None and choice.key in menu.behind:
                menu.press(choice.key)
            elif choice is not None:
                self.answer(choice.value)
        elif time.monotonic() - self._answered_at < QUIET_S:
            pass  # "y, Enter" must not send the draft
        elif is_pasted:
            self.buffer.insert_text("\n")
        elif self._complete_file():
            pass
        elif self.buffer.document.text_before_cursor.endswith("\\"):
            self.buffer.delete_before_cursor()
            self.buffer.insert_text("\n")
        elif text.strip():
            text = self.buffer.text
            self.buffer.history.append_string(self.state.pastes.unfold(text))
            self.clear()
            submit(self.state, text, later=later)

    def send(self, text: str) -> None:
        """Submits a message as if it had been typed here, and leaves the line as it is."""
        submit(self.state, text)

    def press_choice(self, key: str) -> None:
        """Handles a key of the menu: it answers at once."""
        self._note_key()
        if self.menu is not None and (choice := self.menu.press(key)) is not None:
            self.answer(choice.value)

    def escape(self) -> None:
        """Handles Esc: closes a menu, or else takes back a queued message, or else stops the turn.
        A second Esc soon afterwards edits the last message."""
        now = time.monotonic()
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        elif self.asking:
            self.leave_menu()
            self._escaped_at = now
        elif now - self._escaped_at < ESC_AGAIN_S:
            self._escaped_at = float("-inf")
            self._edit_last()
        elif self.buffer.text:
            self._escaped_at = now
        elif not self.take_back_queued():
            self._escaped_at = now
            self.state.interrupt()

    def _edit_last(self) -> None:
        """Puts a queued message back into the line, or else the last sent one, to be replaced."""
        if self.take_back_queued():
            return
        if self.state.sent is None:
            self.state.screen.print("There is no message to edit yet.", "dim")
            return
        self.state.interrupt()
        self.buffer.reset(Document(self.state.sent))
        self.state.replacing = True
        self.state.screen.print(
            "Sending this replaces your last message and what followed it.", "dim"
        )

    def take_back_queued(self) -> bool:
        """Puts the newest queued message back into the line; False if there is none."""
        messages = self.state.queued or self.state.steering
        if not messages:
            return False
        self.buffer.reset(Document(messages.pop()))
        return True

    def leave_menu(self) -> None:
        """Goes back to the choices from writing or from a list behind one; else closes the menu."""
        menu = self.menu
        if menu is None or not (menu.writing or menu.opened):
            self.answer(None)
            return
        menu.go_back()
        self.buffer.reset()

    def _find_completion(self) -> Completion | None:
        """Returns what Enter would insert: the row that the person moved to, or else the first row,
        if it completes an unfinished word."""
        menu, typed = self.buffer.complete_state, self.buffer.document.text_before_cursor
        if menu is None or not menu.completions or menu.current_completion is not None:
            return menu.current_completion if menu is not None else None
        mention = BEING_TYPED.search(typed)
        is_command = typed.startswith("/") or mention is None
        whole = typed if is_command or mention is None else mention_query(mention)
        is_whole = whole in PROMPT_ALIASES or whole in [row.text for row in menu.completions]
        # A command that only contains what was typed is chosen, not completed.
        is_other = is_command and not menu.completions[0].text.startswith(typed)
        return None if is_whole or is_other else menu.completions[0]

    def _complete_file(self) -> bool:
        """Completes an unfinished word; True if it was a file name, after which nothing is sent."""
        completion, menu = self._find_completion(), self.buffer.complete_state
        if completion is None or menu is None:
            return False
        is_command = self.buffer.document.text_before_cursor.startswith("/")
        if menu.current_completion is None:
            self.buffer.apply_completion(completion)
        self.buffer.complete_state = None
        return not is_command

    def _mark_completion(self, _: object) -> None:
        menu, taken = self.buffer.complete_state, self._find_completion()
        accent = to_formatted_text(ANSI(self.state.screen.paint("accent", "x")))[0][0]
        look = f"{_PLAIN} bold {accent}" if accent else "reverse"
        for row in menu.completions if menu is not None else ():
            row.selected_style = f"class:completion-menu.completion.current {look}"
            row.style = row.selected_style if row is taken else ""

    def interrupt(self) -> None:
        """Handles Ctrl-C and SIGINT: stops what runs, or else clears the line; twice, exits."""
        if self.state.interrupt():
            return
        if self.asking:
            self.answer(None)
        elif self.buffer.text:
            self.buffer.history.append_string(self.state.pastes.unfold(self.buffer.text))  # for Up
            self.clear()
            self.state.replacing = False
            # SIGINT is not a key: nothing else would repaint the line.
            self.redraw()
        elif time.monotonic() - self._interrupted_at < LEAVING_S:
            run_key_command(self.state, "/quit")
        else:
            self._interrupted_at = time.monotonic()
            self.state.screen.print("Press Ctrl-C again to quit.", "dim")

    def _note_key(self) -> None:
        self._key_at = time.monotonic()
        self._answered_at = self._escaped_at = float("-inf")

    async def _animate_spinner(self) -> None:
        for frame in itertools.count():
            await asyncio.sleep(SPIN_S)
            # Prints also what was queued while another program had the terminal, or it was resized.
            self.state.screen.flush()
            still = self.asking and frame % 10  # one a second: a question may wait for hours
            if self.state.is_busy and self.state.screen.watched and not still:
                self.state.screen.redraw()

    def _completes_now(self) -> bool:
        """Whether the menu opens by itself: for a command or after `@`, nowhere else."""
        document = self.buffer.document
        typed = document.current_line_before_cursor  # a paste of many lines comes key by key
        is_command = typed.startswith("/") and document.on_first_line
        return not self.asking and (is_command or bool(BEING_TYPED.search(typed)))
