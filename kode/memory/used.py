"""`/memory used`: the entries in the last request, their cost, and which of them the answer
named."""

from collections.abc import Callable, Sequence

from kode import credentials
from kode.contracts import MemorySystem
from kode.memory.frame import escape
from kode.memory.guarded import kept_in
from kode.memory.lineage import Entry
from kode.memory.uses import WORDS_IN_A_ROW, is_named, words_of
from kode.messages import shorten

SEEN_CHARS = 120
"""This much of an entry's beginning is searched in what was sent: long entries are cut there."""
TEXT_CHARS = 100


def used(
    system: MemorySystem, sent: Sequence[str], answer: str, tokens: Callable[[str], int]
) -> str:
    """`sent` is all of memory in the last request, `answer` the model's answer, and `tokens` counts
    those of a text. Raises: MemoryRefused if entries cannot be counted."""
    entries = kept_in(system, "used").entries()
    whole = _fold("\n".join(sent))
    shown = [entry for entry in entries if _head(entry) in whole]
    cost = sum(map(tokens, sent))
    head = f"In the last request: {len(shown)} of {len(entries)} entries, about {cost:,} tokens"
    if not shown:
        return f"{head} of memory."
    said = words_of(answer)
    lines = [f"{head} of memory with its frame.", " tokens"]
    for entry in shown:
        named = "named" if is_named(entry, said) else ""
        text = shorten(credentials.redact(entry.text), TEXT_CHARS)
        lines.append(f"{tokens(entry.text):7,}  {named:5}  [{entry.target}] {text}")
    lines.append(f"named: {WORDS_IN_A_ROW} of its words in a row stand in the answer")
    return "\n".join(lines)


def _head(entry: Entry) -> str:
    """As it appears in what was sent: on one line, markers escaped, credentials masked."""
    return _fold(escape(entry.text))[:SEEN_CHARS].rstrip()


def _fold(text: str) -> str:
    return " ".join(text.split())
