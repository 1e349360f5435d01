"""Unified diffs for a person, and the changed lines with their new numbers for the model."""

import re

from kode.tools.files import lines_of, with_line_feeds

CONTEXT_LINES = 3
MAX_DIFF_CHARS = 200_000
MAX_SHOWN_LINES = 120
MAX_SHOWN_CHARS = 8_000


def unified(name: str, before: str, after: str) -> str:
    """The unified diff between two texts, ignoring line ends; "" if nothing else differs."""
    import difflib

    old, new = _marked(before), _marked(after)
    # Compares only what differs: in a long file of similar lines difflib would report whole
    # stretches as replaced.
    start, end = _common(old, new)
    skipped = max(0, start - CONTEXT_LINES)
    kept = max(0, end - CONTEXT_LINES)
    lines = difflib.unified_diff(
        old[skipped : len(old) - kept],
        new[skipped : len(new) - kept],
        f"a/{name}",
        f"b/{name}",
        n=CONTEXT_LINES,
    )
    text = "".join(_shifted(line, skipped) if line.startswith("@@ ") else line for line in lines)
    if len(text) <= MAX_DIFF_CHARS:
        return text
    return text[:MAX_DIFF_CHARS] + f"\n[the diff has {len(text):,} characters; cut here]\n"


def _common(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines the two share at the start, and of the rest at the end."""
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - start
    end = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    return start, end


def _shifted(header: str, lines: int) -> str:
    def moved(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) + lines}"

    return re.sub(r"(?<= )([-+])(\d+)", moved, header)


def _marked(text: str) -> list[str]:
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


def changed_lines(diff: str) -> str:
    """The new lines around each change, numbered as `read_file` numbers them."""
    shown: list[str] = []
    number, size = 0, 0
    for line in diff.split("\n")[2:]:
        if len(shown) >= MAX_SHOWN_LINES or size >= MAX_SHOWN_CHARS:
            shown.append("[more lines changed; read the file to see them]")
            break
        if header := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(header[1])
            if shown:
                shown.append("...")
            continue
        if line[:1] not in ("+", " "):
            continue
        text = line[1:] if len(line) <= 500 else line[1:500] + "…"
        shown.append(f"{number}\t{text}")
        size += len(text)
        number += 1
    return "\n".join(shown)
