"""Notifies a person who is elsewhere: a long turn has ended, or a question waits.

By the terminal's own notification if it is known to have one, else by its bell; and only if its
window is not in front, as far as it reports that. `state` and `ask` decide what is worth a
notification.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from kode.cli.screen.lines import clip, one_line

LONG_TURN_S = 30.0  # a person looks away from longer turns
AWAY_AFTER_S = 15.0
"""If the terminal does not report focus, a person who has pressed no key for this long may be
elsewhere."""

MAX_COLUMNS = 120  # desktops cut longer notifications

FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
"""Asks the terminal to send `ESC [ I` and `ESC [ O` when its window gains or loses focus. Terminals
without support ignore it."""

BELL = "\a"

Setting = bool | Literal["bell"]


def takes_texts(environ: Mapping[str, str]) -> bool:
    """Whether this terminal shows a text as a notification (OSC 9). Inside tmux or screen only the
    bell is passed on."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux")):
        return False
    named = program in ("iTerm.app", "WezTerm", "ghostty") or environ.get("KITTY_WINDOW_ID")
    return bool(named) or term.startswith(("foot", "xterm-kitty"))


def sequence(text: str) -> str:
    """The escape sequence that shows `text`, cleaned and shortened, as a notification of kode."""
    return f"\x1b]9;kode: {clip(one_line(text), MAX_COLUMNS)}\x1b\\"


@dataclass
class Notifier:
    """One terminal and whether its window is in front."""

    send: Callable[[str], None]
    """Writes a sequence of kode's own to the terminal."""
    last_key_at: Callable[[], float]
    shows_text: bool = False
    """Whether the terminal takes more than a bell."""
    setting: Setting = True
    clock: Callable[[], float] = time.monotonic
    in_front: bool | None = None
    """None until the terminal reports it."""

    @property
    def away(self) -> bool:
        """Whether the person is probably not looking."""
        if self.in_front is not None:
            return not self.in_front
        return self.clock() - self.last_key_at() >= AWAY_AFTER_S

    def tell(self, text: str) -> None:
        """Notifies a person who is away, unless the setting disables it."""
        if self.setting is False or not self.away:
            return
        with contextlib.suppress(OSError):  # a closed terminal
            self.send(sequence(text) if self.shows_text and self.setting != "bell" else BELL)


def notify_terminal(terminal: str, text: str, setting: Setting) -> None:
    """Notifies a person in another terminal of theirs, by its file; not where it is gone, or
    another person's."""

    def send(sequence: str) -> None:
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(terminal, flags)
        try:
            if os.isatty(descriptor) and os.fstat(descriptor).st_uid == os.getuid():
                os.write(descriptor, sequence.encode())
        finally:
            os.close(descriptor)

    Notifier(send, lambda: float("-inf"), takes_texts(os.environ), setting).tell(text)
