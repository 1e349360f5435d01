"""The key bindings of the prompt. Editing keys are prompt_toolkit's own (Emacs style)."""

import asyncio
import re
from collections.abc import Callable

from prompt_toolkit.application.current import get_app
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, Filter, is_searching, vi_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding.key_bindings import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from kode.cli.prompt.attach import clipboard_picture
from kode.cli.prompt.editor import Editor
from kode.cli.prompt.submit import move_to_background, run_key_command, show_details

NEW_LINE = Keys.ControlF24
"""Stands for Shift+Enter, as a key that no keyboard has. A line feed cannot stand for it: the
terminal turns each Enter typed before kode took over into a line feed, so that means Enter."""
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
"""(code, modifiers) from a terminal → its key. Modifiers: 1 none, 2 Shift, 3 Alt, 5 Control."""
for (_code, _modifiers), _key in _CODED_KEYS.items():
    ANSI_SEQUENCES[f"\x1b[{_code};{_modifiers}u"] = _key  # CSI u, of kitty and tmux
    ANSI_SEQUENCES[f"\x1b[27;{_modifiers};{_code}~"] = _key  # modifyOtherKeys, of xterm
_CODED_BREAK = re.compile(r"\x1b\[(?:1[03];\d|106;5)u")
"""A line break in a paste, as tmux sends it with `extended-keys-format csi-u`."""


def make_bindings(editor: Editor) -> KeyBindings:
    """Makes kode's own key bindings; other keys edit. If several match, the last one counts."""
    keys, state, buffer = KeyBindings(), editor.state, editor.buffer
    empty = Condition(lambda: not buffer.text)
    completing = Condition(lambda: buffer.complete_state is not None)
    asking = Condition(lambda: editor.asking)
    choosing = Condition(lambda: editor.menu is not None)
    has_keys = Condition(lambda: editor.menu is not None and editor.menu.has_keys)
    is_behind = has_keys & Condition(lambda: editor.menu is not None and bool(editor.menu.opened))
    has_queued = Condition(lambda: bool(state.queued or state.steering))
    in_turn = Condition(lambda: state.in_turn)
    alone = Condition(lambda: not get_app().key_processor.input_queue)

    # (key, when, what it does)
    rows: tuple[tuple[str, Filter, Callable[[KeyPressEvent], object]], ...] = (
        # If more came in the same read, it is a paste, from a terminal that does not mark them.
        ("enter", ~is_searching, lambda e: editor.accept(is_pasted=not alone())),
        ("escape enter", asking, lambda e: editor.accept()),
        ("escape enter", ~asking & (~in_turn | empty), lambda e: buffer.insert_text("\n")),
        ("escape enter", in_turn & ~empty & ~asking, lambda e: editor.accept(later=True)),
        (NEW_LINE, asking, lambda e: editor.accept()),
        (NEW_LINE, ~asking & ~is_searching, lambda e: buffer.insert_text("\n")),
        ("c-d", empty & asking, lambda e: editor.answer(None)),
        ("c-d", empty & ~asking, lambda e: run_key_command(state, "/quit")),
        # While kode is suspended, running work is recorded when it resumes; commands, in their own
        # process groups, keep running.
        ("c-z", ~is_searching, lambda e: e.app.suspend_to_background(suspend_group=False)),
        ("tab", ~asking, lambda e: _complete(editor)),
        ("s-tab", ~asking, lambda e: state.switch_mode()),
        ("s-tab", completing, lambda e: buffer.complete_previous()),
        ("up", empty & ~asking & has_queued, lambda e: editor.take_back_queued()),
        # An answer has neither history nor completions; a menu is moved through with these keys.
        *((key, asking & ~choosing, lambda e: None) for key in ("up", "down", "tab", "s-tab")),
        *((key, choosing, lambda e: _move(editor, e)) for key in ("up", "down", "tab", "s-tab")),
        *((key, asking, lambda e: None) for key in ("c-r", "c-s")),
        (Keys.Any, has_keys, lambda e: editor.press_choice(e.data)),
        ("backspace", is_behind, lambda e: editor.leave_menu()),
        (Keys.BracketedPaste, ~is_searching, lambda e: _insert_paste(editor, e.data)),
        ("c-v", ~asking & ~vi_mode, lambda e: _paste_picture(editor)),
        ("c-x c-e", ~asking, lambda e: _edit_in_editor(editor)),
        ("c-o", ~is_searching, lambda e: show_details(state)),
        ("c-b", empty & ~asking, lambda e: move_to_background(state)),
    )
    for key, when, act in rows:
        keys.add(*key.split(), filter=when)(act)
    # Eager: Esc does not wait for a second key, unless one arrived together with it.
    keys.add("escape", filter=(~vi_mode | has_keys) & ~is_searching, eager=alone)(
        lambda event: editor.escape()
    )
    keys.add("c-c", filter=~is_searching, eager=True)(lambda event: editor.interrupt())
    keys.add(Keys.SIGINT, eager=True)(lambda event: editor.interrupt())
    return keys


def _complete(editor: Editor) -> None:
    """Opens the completions; if they are open, inserts the only one or moves on among several."""
    completions = editor.buffer.complete_state
    if completions is None:
        editor.buffer.start_completion(insert_common_part=True)
    elif len(completions.completions) == 1:
        editor.buffer.apply_completion(completions.completions[0])
    else:
        editor.buffer.complete_next()


def _move(editor: Editor, event: KeyPressEvent) -> None:
    menu, key = editor.menu, event.key_sequence[0].key
    assert menu is not None
    if key == Keys.BackTab and menu.back_tab and not menu.writing:
        editor.answer(menu.back_tab)
    elif key == Keys.ControlI and menu.takes_words:
        menu.go_back()
        menu.writing = True
    else:
        menu.move(editor.buffer.text, -1 if key in (Keys.Up, Keys.BackTab) else 1)


def _insert_paste(editor: Editor, data: str) -> None:
    text = _CODED_BREAK.sub("\n", data).replace("\r\n", "\n").replace("\r", "\n")
    if editor.menu is not None and editor.menu.has_keys:
        editor.put_back(editor.state.pastes.fold(text))  # a message: no letter of it may answer
    elif editor.asking:
        # A paste may end in a line feed, but never submits an answer.
        editor.buffer.insert_text(" ".join(text.split()))
    else:
        editor.buffer.insert_text(editor.state.pastes.fold(text))


async def _paste_picture(editor: Editor) -> None:
    """Inserts the placeholder of the image in the clipboard, unless the model is known not to see
    images."""
    state = editor.state
    provider = state.opened.agent.provider if state.opened is not None else None
    picture, why_not = await asyncio.to_thread(clipboard_picture)
    if provider is not None and provider.info.sees_images is False:
        why_not = f"{provider.model} cannot see images. /model NAME switches to one that can."
    elif picture is not None:
        return editor.buffer.insert_text(state.pastes.add_picture(picture))
    state.screen.print(why_not, "dim")


async def _edit_in_editor(editor: Editor) -> None:
    text = await editor.edit_text(editor.state.pastes.unfold(editor.buffer.text))
    editor.buffer.document = Document(text)
    editor.redraw()
