"""Parses the unambiguous part of the shell grammar: literal words, operators, redirections to
files.

Every byte of a text must match one of the patterns here, or the text is not plain. Quotes mean the
same in every shell, nothing is expanded, no word is a keyword. Other texts go to `tree`, which
finds programs but promises nothing.
"""

import re
from dataclasses import dataclass
from typing import Literal

from kode.permissions.shell.line import TooLong

MAX_ITEMS = 100  # longer lines are programs: a person decides
MAX_WORDS = 300  # longer lines are programs: a person decides


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """Without quotes if literal or a pattern, else as written."""
    kind: Literal["literal", "pattern", "open"] = "literal"
    """`pattern`: only globs and a leading `~` are expanded. `open`: anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    words: tuple[Word, ...]
    before: str = ""
    """The operator before it: `|`, `&&`, `||`, `;`, `&`; "" for the first."""
    behind: str = ""
    """The operator after it; "" for the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    text: str
    operator: str
    target: Word
    in_test: bool = False
    """Whether it stands between `[` and `]`, where it was probably meant to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    text: str


Item = Command | Redirect | Assignment

# No group below is repeated possessively: Python before 3.11.5 (that of Debian 12) takes `a"` for a
# whole word then, since it forgets where the repetition stood when a part of it fails.
_BARE = r"[A-Za-z0-9_./,:+@%=-]"
_SINGLE = r"'[^'\x00-\x08\x0b-\x1f\x7f]*'"
_DOUBLE = r'"(?:[^"\\$`!\x00-\x08\x0b-\x1f\x7f]|\\[^$`!\n\x00-\x1f\x7f])*"'
_ESCAPE = r"\\[ -~]"
_WORD = rf"(?:{_BARE}|{_SINGLE}|{_DOUBLE}|{_ESCAPE})+"
_END = r"(?=[ \t\n;|&]|\Z)"

_TOKEN = re.compile(
    rf"(?P<blank>[ \t]++)"
    rf"|(?P<redirect>[0-9]?(?P<way>>>|>\||&>>|&>|>&|>|<)(?![<>&|])[ \t]*+(?P<target>{_WORD})){_END}"
    rf"|(?P<operator>&&|\|\||[;\n|&])"
    rf"|(?P<word>{_WORD}|\{{\}}|\[|\]){_END}"
)

_PIECE = re.compile(rf"{_SINGLE}|{_DOUBLE}|{_ESCAPE}")

_PATTERN = re.compile(rf"(?:{_BARE}|{_SINGLE}|{_DOUBLE}|{_ESCAPE}|[*?\[\]~^!#\"])*")

_HOME = re.compile(r"\"?\$(?:HOME\b|\{HOME\})")

KEYWORDS = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc in".split()
)
"""At the beginning of a command. `{`, `}`, `!` and `[[` are not words here at all."""


def parse(text: str) -> tuple[Item, ...] | None:
    """The commands of a plain text, each followed by its redirections; None for other texts.
    Raises: TooLong."""
    items: list[Item] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    position = start = 0
    before = ""

    def finish(behind: str) -> None:
        nonlocal words, redirects, before
        command = text[start:position].strip()
        items.append(Command(text=command, words=tuple(words), before=before, behind=behind))
        items.extend(redirects)
        words, redirects, before = [], [], behind

    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        if word := token["word"]:
            if not words:
                start = position
                if word in KEYWORDS or word in ("{}", "]") or "=" in word:
                    return None
            words.append(Word(decode(word)))
            if len(words) > MAX_WORDS or len(items) > MAX_ITEMS:
                raise TooLong
        elif token["redirect"]:
            if not words:
                return None
            redirects.append(_redirect(token, words))
        elif operator := token["operator"]:
            if words:
                finish(";" if operator == "\n" else operator)
            elif operator != "\n":
                return None
        position = token.end()
    if words:
        finish("")
    return None if before in ("|", "&&", "||") else tuple(items)


def _redirect(token: re.Match[str], words: list[Word]) -> Redirect:
    return Redirect(
        text=token["redirect"],
        operator=token["way"],
        target=Word(decode(token["target"])),
        in_test=words[0].text == "[",
    )


def word_of(source: str) -> Word:
    """The word for its source text."""
    if re.fullmatch(_WORD, source) or source in ("{}", "[", "]"):
        return Word(decode(source))
    pattern = _HOME.sub("~", source, count=1) if _HOME.match(source) else source
    if _PATTERN.fullmatch(pattern):
        return Word(decode(pattern).replace('"', ""), "pattern")
    return Word(source, "open")


def decode(word: str) -> str:
    """A word without its quotes."""
    return _PIECE.sub(_unquote, word)


def _unquote(piece: re.Match[str]) -> str:
    quoted = piece[0]
    if quoted.startswith("\\"):
        return quoted[1:]
    inside = quoted[1:-1]
    return re.sub(r'\\(["\\])', r"\1", inside) if quoted.startswith('"') else inside
