"""The key bindings of the prompt. Editing keys are prompt_toolkit's own (Emacs style)."""

import asyncio
import re
from collections.abc import Sequence

from prompt_toolkit.application.current import get_app
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching, vi_mode, vi_navigation_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from kode.cli.prompt.attach import clipboard_picture, pasted_pictures
from kode.cli.prompt.editor import Editor
from kode.cli.prompt.submit import press, show_details
from kode.errors import UserError
from kode.images import Picture, check

NEW_LINE = Keys.ControlF24
"""A key that no keyboard has stands for Shift+Enter. A line feed is Enter: a terminal makes one of
each Enter that was typed before kode had it."""
_CODED_KEYS: dict[tuple[int, int], Keys | tuple[Keys, ...]] = {
    (13, 1): Keys.ControlM,
    (13, 2): NEW_LINE,
    (13, 3): (Keys.Escape, Keys.ControlM),
    (9, 1): Keys.ControlI,
    (9, 2): Keys.BackTab,
    (27, 1): Keys.Escape,
    (127, 1): Keys.ControlH,
    **{(ord(key), 5): Keys(f"c-{key}") for key in "abcdefghijklmnopqrstuvwxyz"},
}
"""Keys that a terminal sends as a code and its modifiers: 1 is none, 2 Shift, 3 Alt, 5 Control."""
for (_code, _modifiers), _key in _CODED_KEYS.items():
    ANSI_SEQUENCES[f"\x1b[{_code};{_modifiers}u"] = _key  # CSI u, of kitty and tmux
    ANSI_SEQUENCES[f"\x1b[27;{_modifiers};{_code}~"] = _key  # modifyOtherKeys, of xterm
_CODED_BREAK = re.compile(r"\x1b\[(?:1[03];\d|106;5)u")
"""A line end of a paste as tmux writes it with `extended-keys-format csi-u`."""


def bindings(editor: Editor) -> KeyBindings:
    """kode's own key bindings; all other keys edit."""
    keys = KeyBindings()
    empty = Condition(lambda: not editor.buffer.text)
    menu = Condition(lambda: editor.buffer.complete_state is not None)
    asking = Condition(lambda: editor.asking)
    choosing = Condition(lambda: editor.menu is not None)
    has_keys = Condition(lambda: editor.menu is not None and editor.menu.has_keys)
    in_turn = Condition(lambda: editor.state.in_turn)
    alone = Condition(lambda: not get_app().key_processor.input_queue)

    @keys.add("enter", filter=~is_searching)
    def _send(event: KeyPressEvent) -> None:
        # Nobody types on within one read: a paste, from a terminal that does not mark pastes.
        editor.accept(is_pasted=bool(event.key_processor.input_queue))

    @keys.add("escape", "enter", filter=in_turn & ~empty & ~asking)
    def _send_later(event: KeyPressEvent) -> None:
        editor.accept(later=True)

    @keys.add("escape", "enter", filter=~in_turn | empty | asking)
    @keys.add(NEW_LINE)
    def _new_line(event: KeyPressEvent) -> None:
        if editor.asking:
            editor.accept()
        else:
            editor.buffer.insert_text("\n")

    @keys.add("c-c", eager=True, filter=~is_searching)
    @keys.add(Keys.SIGINT, eager=True)
    def _interrupt(event: KeyPressEvent) -> None:
        editor.interrupt()

    @keys.add("c-d", filter=empty)
    def _leave(event: KeyPressEvent) -> None:
        if editor.asking:
            editor.answer(None)
            return
        press(editor.state, "/quit")

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        # While kode is suspended, running work is recorded when it resumes; commands, in their own
        # process groups, keep running.
        event.app.suspend_to_background(suspend_group=False)

    @keys.add("tab", filter=~choosing)
    def _complete(event: KeyPressEvent) -> None:
        if editor.asking:
            return
        if editor.buffer.complete_state:
            _take_or_next(editor)
            return
        editor.buffer.start_completion(insert_common_part=True)

    @keys.add("s-tab", filter=menu)
    def _previous(event: KeyPressEvent) -> None:
        editor.buffer.complete_previous()

    @keys.add("up", filter=empty & ~asking)
    def _take_back(event: KeyPressEvent) -> None:
        if not editor.take_back_queued():
            editor.buffer.auto_up()

    @keys.add("up", filter=choosing)
    @keys.add("down", filter=choosing)
    @keys.add("tab", filter=choosing)
    @keys.add("s-tab", filter=choosing)
    def _move(event: KeyPressEvent) -> None:
        menu, key = editor.menu, event.key_sequence[0].key
        assert menu is not None
        if key == Keys.BackTab and menu.back_tab and not menu.writing:
            editor.answer(menu.back_tab)
        elif key == Keys.ControlI and menu.takes_words:
            menu.write(True)
        else:
            menu.move(editor.buffer.text, -1 if key in (Keys.Up, Keys.BackTab) else 1)

    @keys.add("backspace", filter=has_keys)
    def _close_list(event: KeyPressEvent) -> None:
        assert editor.menu is not None
        editor.menu.write(False)

    @keys.add(Keys.Any, filter=has_keys)
    def _press_choice(event: KeyPressEvent) -> None:
        editor.press_choice(event.data)

    # Eager: it does not wait for a second key, unless that has come with it.
    @keys.add("escape", filter=(~vi_mode | has_keys) & ~is_searching, eager=alone)
    def _escape(event: KeyPressEvent) -> None:
        editor.escape()

    @keys.add("up", filter=asking & ~choosing)
    @keys.add("down", filter=asking & ~choosing)
    @keys.add("c-r", filter=asking)
    @keys.add("c-s", filter=asking)
    def _nothing(event: KeyPressEvent) -> None:
        """Does nothing: history is not for answers."""

    @keys.add("s-tab", filter=~menu & ~asking)
    def _next_mode(event: KeyPressEvent) -> None:
        editor.state.next_mode()

    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        text = _CODED_BREAK.sub("\n", event.data).replace("\r\n", "\n").replace("\r", "\n")
        if editor.menu is not None and editor.menu.has_keys:
            editor.put_back(editor.pastes.fold(text))  # a message, that no key of it answers
            return
        if editor.asking:
            # A paste may end in a line feed, but never submits an answer.
            editor.buffer.insert_text(" ".join(text.split()))
            return
        if pictures := pasted_pictures(text, editor.state.folder):
            take_pictures(editor, pictures)
            return
        editor.buffer.insert_text(editor.pastes.fold(text))

    @keys.add("c-v", filter=~asking & ~vi_navigation_mode)
    def _paste_picture(event: KeyPressEvent) -> None:
        event.app.create_background_task(_from_clipboard(editor))

    @keys.add("c-x", "c-e", filter=~asking)
    def _compose(event: KeyPressEvent) -> None:
        event.app.create_background_task(_compose_message(editor))

    @keys.add("c-o")
    def _details(event: KeyPressEvent) -> None:
        show_details(editor.state)

    @keys.add("c-b", filter=empty & ~asking)
    def _to_background(event: KeyPressEvent) -> None:
        from kode.cli.prompt.shell_line import move_to_background

        move_to_background(editor.state)

    @keys.add("c-l")
    def _clear(event: KeyPressEvent) -> None:
        get_app().renderer.clear()

    return keys


def take_pictures(editor: Editor, pictures: Sequence[Picture]) -> None:
    """Inserts placeholders for pasted images, unless they are too large or the model is known to be
    blind."""
    state = editor.state
    provider = state.opened.agent.provider if state.opened is not None else None
    if provider is not None and provider.info.sees_images is False:
        state.hint(f"{provider.model} cannot see images. /model NAME switches to one that can.")
        return
    try:
        for picture in pictures:
            check(picture)
    except UserError as error:
        state.hint(str(error))
        return
    editor.buffer.insert_text(" ".join(map(editor.pastes.add_picture, pictures)))


async def _compose_message(editor: Editor) -> None:
    text = await editor.edit_text(editor.pastes.unfold(editor.buffer.text))
    editor.buffer.document = Document(text)
    editor.redraw()


async def _from_clipboard(editor: Editor) -> None:
    picture, why_not = await asyncio.to_thread(clipboard_picture)
    if picture is None:
        editor.state.hint(why_not)
    else:
        take_pictures(editor, [picture])


def _take_or_next(editor: Editor) -> None:
    """Tab in the menu: inserts a single choice, moves on among several."""
    menu = editor.buffer.complete_state
    if menu is not None and len(menu.completions) == 1:
        editor.buffer.apply_completion(menu.completions[0])
        return
    editor.buffer.complete_next()
