"""Fits texts to the screen by cutting and wrapping, and words numbers briefly. Without style.

Pure functions. `describe` words events; `screen` and `render` add colour and place them.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from kode.plain_text import sanitize

if TYPE_CHECKING:
    from kode.session.spending import Spent

MIN_MEANING_COLUMNS = 22  # a meaning needs a few words a line to be read

_WIDE = "\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60"
_OPENING, _CLOSING = "「『（《〈【［｛", "」』）》〉】］｝、。，．：；？！"
_WORD = re.compile(
    # A line may break after each match; none separates a number from what it counts.
    rf"\s*[{_OPENING}]*(?:\d[\d.,]*k? (?=[a-z]{{1,12}}\b))?"
    rf"(?:[^\s{_WIDE}]+|[{_WIDE}])[{_CLOSING}]*"
)
_BEFORE = re.compile(r"\s*(?:[-•●✗–│] |\[[ x>]\] )?")
"""The indentation of a line, and the mark of a list item."""
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
"""The space between the columns of a table."""


def make_public(text: str) -> str:
    """Returns a text that is safe on a screen that others see, or in a file: cleaned, with
    credentials masked and every invisible character spelled out."""
    from kode.credentials import redact
    from kode.permissions.question import visible

    return sanitize(visible(redact(text)))


def one_line(text: str) -> str:
    """Clean text with white space folded to single spaces."""
    return " ".join(sanitize(text).split())


def cell_width(text: str) -> int:
    """Terminal columns that `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


EMOJI_PARTS = re.compile("\u200d[\u2190-\U0001ffff]|[\ufe0f\U0001f3fb-\U0001f3ff]")
"""The parts after the first character of an emoji. Terminals disagree on how wide they make it."""


def most_columns(text: str) -> int:
    """Like `cell_width`, but for a terminal that draws the parts of an emoji side by side."""
    parts = () if text.isascii() else EMOJI_PARTS.findall(text.replace("\ufe0f", ""))
    return cell_width(text) + 2 * len(parts)


def clip(text: str, width: int) -> str:
    """At most `width` columns of `text`; a cut shows as an ellipsis."""
    if width <= 0:
        return ""
    if cell_width(text) <= width:
        return text
    return cut_to_width(text, width - 1) + "…"


def clip_middle(text: str, width: int) -> str:
    """Like `clip`, but cuts the middle: the end of a path tells more than its middle."""
    if width <= 4 or cell_width(text) <= width:
        return clip(text, width)
    tail = cut_to_width(text[::-1], (width - 1) * 2 // 3)[::-1]
    return cut_to_width(text, width - 1 - cell_width(tail)) + "…" + tail


def cut_to_width(text: str, width: int) -> str:
    """The beginning of `text` that fits `width` columns."""
    if text.isascii():
        return text[:width]
    used = 0
    for at, character in enumerate(text):
        used += most_columns(character)
        if used > width:
            return text[:at]
    return text


def wrap_words(text: str, width: int) -> list[str]:
    """Like `fold`, but breaks a word that no line can hold, so that no line exceeds `width`."""
    return [
        row for line in text.expandtabs(4).split("\n") for row in _wrap(line, width, cut_words=True)
    ]


def fold(text: str, width: int) -> str:
    """Breaks lines between words, and indents the continuation of an item or a table's column like
    it. A long word is not broken, so that a path or an address can be copied."""
    return "\n".join(
        row for line in text.split("\n") for row in _wrap(line, width, cut_words=False)
    )


def words(line: str) -> list[str]:
    """Returns the parts that are not broken between lines, each with the space before it. In
    Chinese and Japanese each character is a part, with the punctuation that belongs to it."""
    return _WORD.findall(line)


def find_breaks(line: str, width: int, *, hang: int = 0, cut_words: bool = True) -> list[int]:
    """Returns where the rows of a line begin, after the first: between words or, with `cut_words`,
    within a word that no row can hold, after a slash if possible. The space before a break may be
    left out. Rows after the first are `hang` columns narrower."""
    starts: list[int] = []
    used = end = 0
    for word in words(line):
        begin, end = end + len(word) - len(word.lstrip()), end + len(word)
        # A line break in the text itself begins a new row too.
        used = hang if "\n" in word else used + cell_width(word[: begin - end])
        is_first = not line[:begin].strip()
        if used + most_columns(line[begin:end]) > width and (used >= width or not is_first):
            starts.append(begin)
            used = hang
        while cut_words and used + most_columns(line[begin:end]) > width:
            # A row of its own takes at least one letter.
            piece = cut_to_width(line[begin : end - 1], width - used) or (
                line[begin] if used <= hang else ""
            )
            slash = piece.rfind("/") + 1
            begin += slash if slash > len(piece) // 2 else len(piece)
            starts.append(begin)
            used = hang
        used += most_columns(line[begin:end])
    return [*starts, *range(end + max(width - used, 0), len(line), max(width - hang, 1))]


def _wrap(line: str, width: int, *, cut_words: bool) -> list[str]:
    if most_columns(line) <= width:
        return [line]
    margins = [cell_width(_BEFORE.findall(line)[0])]
    margins += [cell_width(line[: gap.end()]) for gap in _GAP.finditer(line)]
    hang = max((size for size in margins if size <= min(width // 2, width - 2)), default=0)
    starts = find_breaks(line, width, hang=hang, cut_words=cut_words)
    rows = [line[a:b].rstrip() for a, b in zip([0, *starts], [*starts, None], strict=True)]
    return [rows[0], *(" " * hang + row for row in rows[1:])]


def align_pairs(pairs: Sequence[tuple[str, str]], width: int) -> str:
    """Lays out names with their explanations beside them, or below if space is short or a path does
    not fit. An explanation without a name continues the one before."""
    names = max((cell_width(name) for name, _ in pairs), default=0)
    rows = []
    for name, what in pairs:
        longest = max((cell_width(word.strip()) for word in words(what)), default=0)
        if max(longest, MIN_MEANING_COLUMNS) > width - names - 4:
            rows += [*([f"  {name}"] if name else []), fold(f"      {what}", width)]
        else:
            meaning = fold(" " * (names + 4) + what, width)[names + 4 :]
            rows.append(f"  {name:<{names}}  {meaning}")
    return "\n".join(rows)


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m 05s`, `1h 02m`."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def format_when(at: str, today: date | None = None) -> str:
    """`today 14:02`, `yesterday 09:10`, `Nov 03 14:02`, or the full date of another year."""
    try:
        moment = datetime.fromisoformat(at).astimezone()
    except (ValueError, OverflowError):
        return "?"
    today = today or datetime.now().astimezone().date()
    days = (today - moment.date()).days
    if days == 0:
        return f"today {moment:%H:%M}"
    if days == 1:
        return f"yesterday {moment:%H:%M}"
    return f"{moment:%b %d %H:%M}" if moment.year == today.year else f"{moment:%Y-%m-%d}"


def count(number: int) -> str:
    """`950`, `12.3k`, `200k`, `1.2M`."""
    if number < 1000:
        return str(number)
    value, unit = (number / 1000, "k") if number < 999_500 else (number / 1e6, "M")
    return f"{value:.1f}".removesuffix(".0") + unit if value < 100 else f"{value:.0f}{unit}"


def money(usd: float | None) -> str:
    """`$0.0123`, `$1.20`; "" for an unknown price."""
    if usd is None:
        return ""
    return f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}".rstrip("0").ljust(5, "0")


def format_cost(spent: "Spent") -> str:
    """Dollars; with a `+` if some prices are unknown, `unknown` if all are."""
    if 0 < spent.requests == spent.unpriced:
        return "unknown"
    return money(spent.cost_usd) + ("+" if spent.unpriced else "")


def bars(parts: Sequence[tuple[str, int]], whole: int, width: int) -> list[str]:
    """A bar chart, one line per part: name, bar, amount, share of `whole`."""
    names = max((len(name) for name, _ in parts), default=0)
    room = max(min(width - names - 16, 40), 0)
    lines = []
    for name, amount in parts:
        share = amount / whole if whole else 0.0
        full = min(round(share * room), room)
        filled = "█" * (full or (1 if amount and room else 0))
        lines.append(f"{name:<{names}}  {filled:<{room}} {count(amount):>6} {share:>5.1%}")
    return [line if cell_width(line) <= width else clip(line, width) for line in lines]
