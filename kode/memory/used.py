"""`/memory used`: the entries in the last request, what they cost, which the answer named."""

import re
from collections.abc import Callable, Sequence

from kode import credentials
from kode.contracts import MemorySystem
from kode.errors import MemoryRefused
from kode.memory.frame import defused
from kode.memory.guarded import Guarded
from kode.memory.lineage import Entry, Traced
from kode.messages import shorten

SEEN_CHARS = 120
"""By so much of its beginning an entry is found in what was sent: long ones are cut there."""
WORDS_IN_A_ROW = 3
"""So many words of an entry, one after the other, make an answer name it."""
TEXT_CHARS = 100

_WORD = re.compile(r"\w[\w'’.:/@+#-]*\w|\w")


def used(
    system: MemorySystem, sent: Sequence[str], answer: str, tokens: Callable[[str], int]
) -> str:
    """`sent` is all of memory that the last request held, `answer` what the model said to it, and
    `tokens` counts those of a text. Raises: MemoryRefused where entries cannot be told apart."""
    inside = system.system if isinstance(system, Guarded) else system
    if not isinstance(inside, Traced):
        raise MemoryRefused(f"The {inside.name} memory has no entries to count.")
    entries = inside.entries()
    whole = _folded("\n".join(sent))
    shown = [entry for entry in entries if _head(entry) in whole]
    cost = sum(map(tokens, sent))
    head = f"In the last request: {len(shown)} of {len(entries)} entries, about {cost:,} tokens"
    if not shown:
        return f"{head} of memory."
    said = f" {' '.join(_words(answer))} "
    lines = [f"{head} of memory with its frame.", " tokens"]
    for entry in shown:
        named = "named" if _is_named(entry, said) else ""
        text = shorten(credentials.redact(entry.text), TEXT_CHARS)
        lines.append(f"{tokens(entry.text):7,}  {named:5}  [{entry.target}] {text}")
    lines.append(f"named: {WORDS_IN_A_ROW} of its words in a row stand in the answer")
    return "\n".join(lines)


def _head(entry: Entry) -> str:
    """As it stands in what was sent: on one line, markers escaped, credentials masked."""
    return _folded(defused(entry.text))[:SEEN_CHARS].rstrip()


def _folded(text: str) -> str:
    return " ".join(text.split())


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _is_named(entry: Entry, said: str) -> bool:
    words = _words(entry.text)
    count = min(WORDS_IN_A_ROW, len(words))
    runs = (words[at : at + count] for at in range(len(words) - count + 1) if count)
    return any(f" {' '.join(run)} " in said for run in runs)
