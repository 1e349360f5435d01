"""Unified diffs for a person, and the changed lines with their new numbers for the model."""

import itertools
import re
from collections.abc import Iterator, Sequence

from kode.plain_text import lines_of, with_line_feeds

CONTEXT_LINES = 3
"""As in `diff -u` and git."""
MAX_DIFF_CHARS = 200_000  # more than a person reads or a window takes
MAX_SHOWN_LINES = 60  # a model reads it with every later request
MAX_SHOWN_CHARS = 4_000  # a thousand tokens
MAX_NEW_LINES = 6  # the model has just written a new file itself
ENDS_SHOWN = 2
"""Lines shown at each end of more than `MAX_NEW_LINES` new ones."""


def unified_diff(name: str, before: str, after: str) -> str:
    """The unified diff between two texts, ignoring line ends; "" if nothing else differs."""
    import difflib

    old, new = _mark(before), _mark(after)
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
    text = "".join(_shift(line, skipped) if line.startswith("@@ ") else line for line in lines)
    if len(text) <= MAX_DIFF_CHARS:
        return text
    return text[:MAX_DIFF_CHARS] + f"\n[the diff has {len(text):,} characters; cut here]\n"


def count_common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines the two share at the start."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((i for i, (before, after) in pairs if before != after), min(len(old), len(new)))


def _shift(header: str, lines: int) -> str:
    def moved(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) + lines}"

    return re.sub(r"(?<= )([-+])(\d+)", moved, header)


def _mark(text: str) -> list[str]:
    lines = lines_of(with_line_feeds(text))
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines


def counts(diff: str) -> str:
    """`+3 -1`: lines added and removed."""
    lines = diff.split("\n")[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return f"+{added} -{removed}"


def changed_lines(diff: str, *, whole: bool = False) -> str:
    """The new lines around each change, numbered as `read_file` numbers them. Of many new lines in
    a row only the ends, unless `whole`: the model wrote them."""
    lines: list[str] = []
    size = 0
    for number, line in _new_lines(diff.split("\n")[2:], whole=whole):
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


def _new_lines(diff: Sequence[str], *, whole: bool) -> Iterator[tuple[int, str]]:
    """Number and text of each line to show; number 0 where some are left out."""
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
