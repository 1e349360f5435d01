"""Plain text: byte order marks and lines of files, text that cannot control a terminal, and diffs,
for a person and for the model. Imports next to nothing, for the processes that search files."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial

from kode.values import Value


class Encoding(Value):
    """How to convert between a file's bytes and its text."""

    codec: str
    """A codec that writes no byte order mark: utf-8, utf-16-le, latin-1, ..."""
    bom: bytes = b""


def detect_encoding(data: bytes) -> Encoding | None:
    """The encoding that a byte order mark names; None without one."""
    for codec in ("utf-32-le", "utf-32-be", "utf-8", "utf-16-le", "utf-16-be"):
        if data.startswith(bom := "\ufeff".encode(codec)):
            return Encoding(codec=codec, bom=bom)
    return None


def split_lines(text: str) -> list[str]:
    """Splits into lines with their ends, at line feeds only, as editors and search tools do."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and related: titles, clipboard, links
    r"|\x1b[ -/]*[0-~]"  # short ones
)
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001ffff"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINED = "\u0620-\u109f"
"""Arabic to Myanmar: words of these scripts need joiners."""
_HIDDEN = re.compile(
    # Controls, surrogates, marks that reorder text, and what takes no space: fillers, tags.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    # Joiners but within an emoji or a word; a selector that selects nothing.
    f"|(?<![{_JOINED}])\u200c|\u200c(?![{_JOINED}])"
    f"|(?<![{_JOINED}{_EMOJI}\ufe0f])\u200d|\u200d(?![{_JOINED}{_EMOJI}])"
    f"|(?<=[{_SELECTORS}])[{_SELECTORS}]"
)


def sanitize(text: str) -> str:
    r"""Text that cannot control a terminal, nor hide anything on it: escape sequences are removed;
    every other character that a terminal obeys or does not show is spelled out, as `\x07` or
    `\u200b`. Tabs, line feeds, and the joiners of emoji and of words stay."""
    if text.isascii() and text.isprintable():
        return text
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _HIDDEN.sub(_escape_hidden, text)


def escape_path(text: str) -> str:
    """A path on one line, with whatever does not show and undecodable bytes spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(f"[\t\n]|{_HIDDEN.pattern}", _escape_hidden, text)


def _escape_hidden(hidden: re.Match[str]) -> str:
    return hidden[0].encode("unicode_escape", "surrogatepass").decode("ascii")


MAX_SOURCE_CHARS = 200  # a URL or path that can be recognized


def fence_text(text: str, source: str) -> str:
    """Puts outside text between two lines that show a model where it begins, ends and comes from.
    They share a nonce that the text does not have. Safety rests on the gate, not on this."""
    while (nonce := os.urandom(8).hex()) in text.lower():
        pass
    source = re.sub('["<>]', "?", escape_path(source))
    if len(source) > MAX_SOURCE_CHARS:
        source = f"{source[: MAX_SOURCE_CHARS - 1]}…"
    return f'<outside-{nonce} source="{source}">\n{text}\n</outside-{nonce}>'


CONTEXT_LINES = 3
"""The default of `diff -u` and git."""
MAX_DIFF_CHARS = 200_000  # more than a person reads or a window takes
MAX_SHOWN_LINES = 60  # a model reads it with every later request
MAX_SHOWN_CHARS = 4_000  # a thousand tokens
MAX_NEW_LINES = 6  # the model has just written a new file itself
ENDS_SHOWN = 2
"""Lines shown at each end of more than `MAX_NEW_LINES` new ones."""


def unified_diff(name: str, before: str, after: str) -> str:
    """The unified diff between two texts, ignoring line ends; "" if nothing else differs."""
    import difflib

    old, new = _split_for_diff(before), _split_for_diff(after)
    # Compares only what differs: in a long file of similar lines difflib would report whole
    # stretches as replaced.
    start = count_common(old, new)
    skipped = max(0, start - CONTEXT_LINES)
    common_end = max(0, count_common(old[start:][::-1], new[start:][::-1]) - CONTEXT_LINES)
    lines = difflib.unified_diff(
        old[skipped : len(old) - common_end],
        new[skipped : len(new) - common_end],
        f"a/{name}",
        f"b/{name}",
        n=CONTEXT_LINES,
    )
    shift = partial(re.sub, r"(?<= )([-+])(\d+)", lambda at: f"{at[1]}{int(at[2]) + skipped}")
    text = "".join(shift(line) if line.startswith("@@ ") else line for line in lines)
    if len(text) <= MAX_DIFF_CHARS:
        return text
    return text[:MAX_DIFF_CHARS] + f"\n[the diff has {len(text):,} characters; cut here]\n"


def count_common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines two texts share at the start."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((i for i, (before, after) in pairs if before != after), min(len(old), len(new)))


def _split_for_diff(text: str) -> list[str]:
    lines = split_lines(normalize_line_ends(text))
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines


def changed_lines(diff: str, *, whole: bool = False) -> str:
    """The new lines around each change, numbered as `read_file` numbers them. Of many new lines in
    a row only the ends, unless `whole`: the model wrote them."""
    lines: list[str] = []
    size = 0
    for number, line in _number_new_lines(diff.split("\n")[2:], whole=whole):
        if len(lines) >= MAX_SHOWN_LINES or size >= MAX_SHOWN_CHARS:
            lines.append("[more lines changed; read the file to see them]")
            break
        if number == 0:
            lines += ["..."] if lines else []
            continue
        text = line if len(line) < 500 else line[:499] + "…"
        lines.append(f"{number}\t{text}")
        size += len(text)
    return "\n".join(lines)


def _number_new_lines(diff: Sequence[str], *, whole: bool) -> Iterator[tuple[int, str]]:
    """The number and text of each line to show; the number 0 where lines are left out."""
    number = 0
    for is_new, run in itertools.groupby(diff, key=lambda line: line[:1] == "+"):
        lines = list(run)
        cut = is_new and not whole and len(lines) > MAX_NEW_LINES
        for index, line in enumerate(lines):
            if header := re.match(r"@@ -\S+ \+(\d+)", line):
                number = int(header[1])
                yield 0, ""
            elif line[:1] in ("+", " "):
                if not cut or min(index, len(lines) - 1 - index) < ENDS_SHOWN:
                    yield number, line[1:]
                elif index == ENDS_SHOWN:
                    yield 0, ""
                number += 1
