"""Programs that run another program: which one, by exact tables of their options."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kode.permissions.shell import programs
from kode.permissions.shell.plain import Word

_ENDS_OF_EXEC = (";", "+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """What a program runs: words, or a shell text."""

    words: tuple[Word, ...] = ()
    text: str | None = None
    transparent: bool = True
    """Whether these words are everything: nothing is set, nothing added."""
    appends: bool = False
    """Whether words that it reads are appended."""
    system: str = ""
    """What the wrapper itself does to the machine."""


def inner_of(words: Sequence[Word]) -> list[Inner]:
    """What a command runs in turn; empty if it runs nothing, or is not understood."""
    name = os.path.basename(words[0].text)
    table = programs.table()
    if name in table.wrappers:
        return _behind(words, table.wrappers[name])
    if name in table.shells:
        return _text_of_shell(words, table.shell_options)
    if name == "find":
        return _executed_words(words)
    if name in ("eval", "trap") and len(words) > 1 and all(w.kind == "literal" for w in words):
        texts = [word.text for word in words[1:] if word.text != "--"]
        text = " ".join(texts) if name == "eval" else texts[0] if texts else ""
        return [Inner(text=text, transparent=False)]
    return []


def _behind(words: Sequence[Word], wrapper: programs.Wrapper) -> list[Inner]:
    position = _skip_options(words, wrapper.options)
    if position is None:
        return []
    first = position
    while (
        wrapper.assigns
        and position < len(words)
        and re.match(r"[A-Za-z_]\w*=", words[position].text)
    ):
        position += 1
    assigned = position > first
    position += wrapper.skip
    if position >= len(words):
        return []
    return [
        Inner(
            words=tuple(words[position:]),
            transparent=not assigned and not wrapper.appends and not wrapper.system,
            appends=wrapper.appends,
            system=wrapper.system,
        )
    ]


def _text_of_shell(words: Sequence[Word], options: programs.Options) -> list[Inner]:
    position = _skip_options(words, options)
    if position is None or position >= len(words) or words[position].kind != "literal":
        return []
    given = (word.text for word in words[1:position])
    if not any(re.fullmatch(r"-[a-z]*c[a-z]*", text) for text in given):
        return []
    return [Inner(text=words[position].text)]


def _executed_words(words: Sequence[Word]) -> list[Inner]:
    commands: list[Inner] = []
    command: list[Word] | None = None
    for word in words:
        if command is None:
            command = [] if word.text in ("-exec", "-execdir", "-ok", "-okdir") else None
        elif word.text in _ENDS_OF_EXEC:
            commands.append(Inner(words=tuple(command), transparent=False))
            command = None
        else:
            command.append(Word(word.text, "open") if "{}" in word.text else word)
    return [inner for inner in commands if inner.words]


def _skip_options(words: Sequence[Word], options: programs.Options) -> int | None:
    """The index of the first word that is not an option; None if one is unknown."""
    texts = [word.text for word in words[1:]]
    count = programs.leading_options(texts, options)
    if count is None or any(word.kind == "open" for word in words[1 : 1 + count]):
        return None
    return 1 + count
