"""The fence around text from outside: pages, files of other folders, results of tainted subagents.

It shows a model where such text begins, ends and comes from. Safety does not depend on it: the gate
decides. Memory has a frame of its own (`kode.memory.frame`).
"""

import re
import secrets

from kode.plain_text import printable

MAX_SOURCE_CHARS = 200  # a URL or path that can be recognized
_NONCE_BYTES = 8  # nobody guesses 64 bits


def fence_text(text: str, source: str) -> str:
    """Puts the text between two lines with its source and a fresh nonce that does not occur in the
    text, so that no text can close its fence."""
    nonce = new_nonce(text)
    return f'<outside-{nonce} source="{_on_one_line(source)}">\n{text}\n</outside-{nonce}>'


def new_nonce(text: str) -> str:
    """16 random hex digits that do not occur in the text, in either case."""
    lowered = text.lower()
    while True:
        nonce = secrets.token_hex(_NONCE_BYTES)
        if nonce not in lowered:
            return nonce


def _on_one_line(source: str) -> str:
    """Folds a source into one line: a URL or file name may be hostile too, with quotes and line
    feeds."""
    shown = re.sub('["<>]', "?", printable(source))
    return shown if len(shown) <= MAX_SOURCE_CHARS else shown[: MAX_SOURCE_CHARS - 1] + "…"
