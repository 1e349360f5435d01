"""`edit_file`: replaces parts of a file. Applies all edits of a call, or none.

The old text must match exactly (ignoring line ends); failing that, as whole lines without
indentation and trailing space, and then the new lines get the file's indentation. Of a text that
was not found the model reads why.
"""

import functools
import itertools
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from kode import diffs
from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.plain_text import with_line_feeds
from kode.tool import Brief, ToolContext, ToolOutput
from kode.tools import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    text: str
    count: int = 1
    """Number of replaced places."""
    reindented: bool = False
    """Whether it matched only without indentation and trailing space."""
    is_proven: bool
    """Whether the old text shows by itself that this place is meant."""
    end: int = 0
    """The line, from 0, after the last replaced one; only of a patch."""


class Misfit(Exception):
    """The text does not contain the old text, or several times."""

    def __init__(self, lines: Sequence[int] = (), *, exact: bool = True) -> None:
        super().__init__(f"found at lines {lines}")
        self.lines = lines
        """The line each place begins at, from 1."""
        self.exact = exact


class Replacement(Protocol):
    """A part of a file's text to be replaced: an edit, or a hunk of a patch."""

    @property
    def old_text(self) -> str: ...
    def apply(self, text: str, position: int) -> Replaced:
        """Takes the text and `Replaced.end` of the one before. Raises: Misfit."""


@dataclass(frozen=True, slots=True)
class Edit:
    old_text: str
    new_text: str
    replace_all: bool = False
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def apply(self, text: str, position: int = 0) -> Replaced:
        """The text after the edit. Bytes outside the replaced ranges never change.

        Raises: Misfit.
        """
        old, new = with_line_feeds(self.old_text), with_line_feeds(self.new_text)
        # With either kind of line end.
        pattern = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n"))) + r"(?!(?<=\r)\n)"
        # Overlapping places count.
        pattern = f"({pattern})" if self.replace_all else f"(?=({pattern}))"
        exact = [Span(*match.span(1), new) for match in re.finditer(pattern, text)]
        spans = exact or list(_loose_spans(text, old, new))
        if not spans:
            raise Misfit
        if len(spans) > 1 and not self.replace_all:
            starts = LinesOf(text).starts
            lines = [bisect_right(starts, span.start) for span in spans]
            raise Misfit(lines, exact=bool(exact))
        return Replaced(
            text=splice(text, spans),
            count=len(spans),
            reindented=not exact,
            is_proven=len(exact) == 1,
        )


# ── the tool ─────────────────────────────────────────────────────────────────────────────────


@tool(
    effect="edit",
    subject="path",
    preview=lambda context, arguments: _plan(context, **arguments).preview(),
    brief=Brief(
        description="Replace text in a file you have read; old_text stands in it exactly once.",
        required=("path", "old_text", "new_text"),
    ),
)
async def edit_file(
    context: ToolContext,
    path: str,
    old_text: str | None = None,
    new_text: str | None = None,
    replace_all: bool = False,
    edits: list[Edit] | None = None,
) -> ToolOutput:
    """Replace text you have seen: old_text by new_text, or edits (all or none). old_text is
    exact, without line numbers, and found once, or set replace_all."""
    return write_change(context, _plan(context, path, old_text, new_text, replace_all, edits))


def _plan(
    context: ToolContext,
    path: str,
    old_text: str | None = None,
    new_text: str | None = None,
    replace_all: bool = False,
    edits: list[Edit] | None = None,
) -> files.Change:
    """What would be written, by either way to pass edits; an empty `edits` beside a text is
    ignored. Raises: ToolError for both and for neither, or if any edit cannot be applied."""
    has_text = old_text is not None or new_text is not None
    if edits and has_text:
        raise ToolError("Give either old_text and new_text, or edits: not both.")
    if edits is not None and not edits and not has_text:
        raise ToolError("`edits` is empty: give at least one {old_text, new_text}.")
    if not edits:
        if old_text is None or new_text is None:
            raise ToolError(
                "edit_file needs old_text and new_text, or edits: [{old_text, new_text}]. "
                "To delete text, give new_text as an empty string."
            )
        edits = [Edit(old_text, new_text, replace_all)]
    replacements = {}
    for number, edit in enumerate(edits, start=1):
        name = f"Edit {number} of {len(edits)}: old_text" if len(edits) > 1 else "old_text"
        if not edit.old_text:
            raise ToolError(
                f"{name} is empty: give the text to replace, or use write_file for a whole new "
                "content of the file. Nothing was written."
            )
        if edit.old_text == edit.new_text:
            raise ToolError(
                f"{name} and new_text are the same: there is nothing to change. "
                "Nothing was written."
            )
        replacements[name] = edit
    advice = "include more of the surrounding lines, or set replace_all"
    return plan_change(context, path, replacements, advice)


def read_target(context: ToolContext, path: str) -> tuple[files.FileText, str]:
    """The text file to be edited, and its name for people. Raises: ToolError."""
    real = files.resolve(context, path)
    files.refuse_protected(context, real)
    file = files.read_whole(context, real)
    if context.decision.must_read_first:
        files.require_seen(context, file)
    return file, files.display_path(context, real)


def plan_change(
    context: ToolContext, path: str, replacements: Mapping[str, Replacement], advice: str
) -> files.Change:
    """What would be written. `replacements` have names for the model; `advice` says how to tell
    several places apart.

    Raises: ToolError if one has no place, or several; if a place is a guess in a text that the
        model has not read; if nothing would change, or the file's encoding lacks a character.
    """
    file, name = read_target(context, path)
    done, count, is_proven = Replaced(text=file.text, is_proven=True), 0, True
    notes = []
    for what, replacement in replacements.items():
        try:
            done = replacement.apply(done.text, done.end)
        except Misfit as misfit:
            if lines := ", ".join(map(str, misfit.lines[:20])):
                lines += ", ..." if len(misfit.lines) > 20 else ""
                loosely = "" if misfit.exact else " (not counting indentation)"
                raise ToolError(
                    f"{what} occurs {len(misfit.lines)} times in {name}{loosely}, at "
                    f"lines {lines}: {advice}. Nothing was written."
                ) from None
            raise ToolError(
                f"{what} was not found in {name}. {explain(done.text, replacement.old_text)}\n"
                "Nothing was written: copy the lines from the file as they are.",
                untrusted=files.find_outside_source(context, file.path),
            ) from None
        count += done.count
        is_proven &= done.is_proven
        if done.reindented:
            notes.append(
                f"{what} was found only without indentation and trailing space; the new text was "
                "indented as the file is."
            )
    if not is_proven:
        files.require_seen(context, file)
    if done.text == file.text:
        raise ToolError(
            f"This changes nothing in {name}: nothing was written. (Line ends are kept as the "
            "file has them; to convert them use a shell command.)"
        )
    done_text = f"Edited {name} in {plural(count, 'place')}."
    return files.Change(file=file, name=name, after=done.text, done=done_text, notes=notes)


def write_change(context: ToolContext, change: files.Change) -> ToolOutput:
    """Writes an edited file, and shows the lines around each change. Raises: ToolError."""
    output = change.write(context)
    lines = diffs.changed_lines(output.diff, whole=bool(change.notes))
    return replace(
        output,
        text=output.text + (f" It now reads:\n{lines}" if lines else ""),
        # The lines around a change come from the file.
        untrusted=files.find_outside_source(context, change.file.path),
    )


# ── places of lines ──────────────────────────────────────────────────────────────────────────


class Span(NamedTuple):
    """A range of the text and its replacement, with line feeds."""

    start: int
    end: int
    new: str


class LinesOf:
    """The lines of a text, and where each of them is."""

    def __init__(self, text: str) -> None:
        parts = [*re.split(r"(\r?\n)", text), ""]
        self.texts, self.ends = parts[::2], parts[1:-1:2]
        """The lines without their ends, and the ends; what follows the last end is a line too."""
        self.starts = [*itertools.accumulate(map(len, parts), initial=0)][::2]
        """Where each starts, and where the text ends."""

    def span(self, first: int, old: Sequence[str], new: Sequence[str]) -> Span:
        """Replaces the lines from `first` on that match `old`; without old ones, the new ones come
        before it."""
        start, after = self.starts[first], first + len(old)
        if not old:
            body = "\n".join(new)
            return Span(start, start, f"\n{body}" if first == len(self.texts) else f"{body}\n")
        if not new:
            return Span(start, self.starts[after], "")
        end = self.starts[after - 1] + len(self.texts[after - 1])
        return Span(start, end, _indent_lines(old, self.texts[first:after], new))


def _loose_spans(text: str, old: str, new: str) -> Iterator[Span]:
    """Every place whose lines equal those of `old` without indentation and trailing space."""
    old_lines = old.removesuffix("\n").split("\n")
    new_lines = (new.removesuffix("\n") if old.endswith("\n") else new).split("\n")
    if not new and old.endswith("\n"):
        new_lines = []
    lines, after = LinesOf(text), 0
    stripped = [line.strip() for line in lines.texts]
    for first in find_lines(stripped, [line.strip() for line in old_lines]):
        if first >= after:
            after = first + len(old_lines)
            yield lines.span(first, old_lines, new_lines)


def find_lines(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """The indexes where the wanted lines are, unless all of them are empty."""
    n = len(wanted)
    for i in range(len(lines) - n + 1) if any(wanted) else ():
        if lines[i] == wanted[0] and lines[i : i + n] == wanted:
            yield i


def _indent_lines(old_lines: Sequence[str], lines: Sequence[str], new_lines: Sequence[str]) -> str:
    """The new lines with the indentation of the matched ones; those they share with the old ones
    stay as in the file."""
    import difflib

    indents = {
        _indent(old): _indent(line)
        for old, line in zip(reversed(old_lines), reversed(lines), strict=True)
        if old.strip()
    }
    indented: list[str] = []
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        is_same = kind == "equal"
        indented += lines[i1:i2] if is_same else [_reindent(x, indents) for x in new_lines[j1:j2]]
    return "\n".join(indented)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(line: str, indents: Mapping[str, str]) -> str:
    """A new line, its indentation shifted like that of the nearest old line."""
    indent = _indent(line)
    body = line[len(indent) :]
    if shorter := [old for old in indents if indent.startswith(old)]:
        base = max(shorter, key=len)
        shifted = indents[base] + _translate(indent[len(base) :], indents)
    elif longer := [old for old in indents if old.startswith(indent)]:
        base = min(longer, key=len)
        shifted = indents[base].removesuffix(_translate(base[len(indent) :], indents))
    else:
        shifted = indent
    return shifted + body if body else ""


def _translate(extra: str, indents: Mapping[str, str]) -> str:
    """Converts further indentation to the file's own: tabs for spaces or spaces for tabs."""
    tabs, spaces = (any(kind in value for value in indents.values()) for kind in "\t ")
    mark = "\t" if tabs else " "
    if tabs == spaces or not extra or mark in extra:
        return extra
    lengths = [(len(value), len(old)) for old, value in indents.items() if mark not in old]
    pairs = sorted(lengths if tabs else [(old, value) for value, old in lengths])
    steps = [(t2 - t1, s2 - s1) for (t1, s1), (t2, s2) in itertools.pairwise(pairs)]
    # The step between two depths is more reliable than one depth, which may be shifted as a whole.
    widths = (s // t for t, s in (*steps, *pairs) if t > 0 and s in (2 * t, 3 * t, 4 * t))
    width = next(widths, 4)
    return "\t" * max(1, len(extra) // width) if tabs else " " * (width * len(extra))


# ── putting it in place ──────────────────────────────────────────────────────────────────────


def splice(text: str, spans: Sequence[Span]) -> str:
    """The text with each span replaced, using the surrounding line ends."""
    parts: list[str] = []
    position, has_crlf = 0, "\r\n" in text
    for span in spans:
        parts += (text[position : span.start], _with_ends(text, span) if has_crlf else span.new)
        position = span.end
    return "".join([*parts, text[position:]])


def _with_ends(text: str, span: Span) -> str:
    """The new text with line ends. Unchanged lines at its start and end keep theirs; the others end
    like those they replace, further ones like the last of these, or like the line they are in."""
    lines = LinesOf(text[span.start : span.end])
    old, ends, new = lines.texts, lines.ends, span.new.split("\n")
    most = min(len(old), len(new)) - 1
    head = next((i for i in range(most) if old[i] != new[i]), most)
    most -= head
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    changed, after = ends[head : len(ends) - tail], ends[len(ends) - tail :]
    further = changed[-1] if changed else after[0] if after else _near(text, span.end)
    count = len(new) - 1 - head - tail
    changed = [*changed, *[further] * count][:count]
    all_ends = (*ends[:head], *changed, *after)
    return new[0] + "".join(end + line for end, line in zip(all_ends, new[1:], strict=True))


def _near(text: str, position: int) -> str:
    """The line end at `position`; in the last line, that of the line before."""
    end = text.find("\n", position)
    end = text.rfind("\n") if end < 0 else end
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


# ── why a text was not found ─────────────────────────────────────────────────────────────────

MAX_COMPARED_LINES = 20_000  # comparing more takes seconds
MAX_SHOWN_LINES = 12  # enough to find the place by

_TYPOGRAPHIC = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"',
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-", "…": "...",
    }
)  # fmt: skip
_INVISIBLE = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u3000": " "}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
)

_REASONS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("typographic quotes or dashes", lambda text: text.translate(_TYPOGRAPHIC)),
    ("upper and lower case", str.casefold),
    ("no-break spaces or invisible characters", lambda text: text.translate(_INVISIBLE)),
    ("tabs against spaces", lambda text: re.sub(r"[ \t]*\t[ \t]*| {2,}", " ", text)),
    ("white space", lambda text: re.sub(r"[ \t]+", " ", re.sub(r"[ \t]*\n[ \t]*", "\n", text))),
    ("composed against decomposed letters", lambda text: unicodedata.normalize("NFC", text)),
    ("line ends (single carriage returns)", lambda text: text.replace("\r", "\n")),
    (
        "several of: case, white space, typographic characters",
        lambda text: functools.reduce(lambda text, it: it[1](text), _REASONS[:-1], text),
    ),
)


def explain(text: str, old: str) -> str:
    """Explains in one or more sentences why `old` is not in `text`, with the nearest lines
    numbered."""
    text, old = with_line_feeds(text), with_line_feeds(old)
    if not old:
        return "The line after `@@` is not there."
    # Two slips of models.
    plain = re.sub(r"(?m)^\s*\d+\t", "", old)
    if plain != old and plain in text:
        return "It has the line numbers that read_file shows: leave the number and tab out."
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if plain != old and plain in text:
        return 'It has written-out escapes (\\n, \\t or \\"): give the characters themselves.'
    for reason, convert in _REASONS:
        same = convert(text)
        position = same.find(convert(old)) if convert(old).strip() else -1
        if position >= 0:
            lines = _number_lines(text, same.count("\n", 0, position), old)
            return f"It differs in {reason} from what is there:\n{lines}"
    words = old.split()
    if 0 < len(words) <= 2000 and (match := re.search(r"\s+".join(map(re.escape, words)), text)):
        line = text.count("\n", 0, match.start())
        return f"It differs in where the lines break:\n{_number_lines(text, line, old)}"
    if (start := _find_similar(text, old)) is not None:
        return f"The nearest lines are:\n{_number_lines(text, start, old)}"
    return "Nothing in the file is like it: check the path, or search for a word of it."


def _find_similar(text: str, old: str) -> int | None:
    """The line where most lines of `old` occur, else the line most like its first one."""
    import difflib

    lines = [_key(line) for line in text.split("\n")[:MAX_COMPARED_LINES]]
    wanted = [_key(line) for line in old.strip("\n").split("\n")]
    offsets = {line: offset for offset, line in enumerate(wanted) if len(line) > 3}
    if starts := Counter(n - offsets[line] for n, line in enumerate(lines) if line in offsets):
        return max(0, starts.most_common(1)[0][0])
    first = next(filter(None, wanted), "")[:200]
    near = difflib.get_close_matches(first, [line[:200] for line in lines], n=1, cutoff=0.6)
    return next((n for n, line in enumerate(lines) if line.startswith(tuple(near))), None)


def _key(line: str) -> str:
    return " ".join(line.translate(_TYPOGRAPHIC).translate(_INVISIBLE).casefold().split())


def _number_lines(text: str, start: int, old: str) -> str:
    count = min(old.strip("\n").count("\n") + 1, MAX_SHOWN_LINES)
    return "\n".join(
        f"{number}\t{line if len(line) <= 300 else line[:300] + '…'}"
        for number, line in enumerate(text.split("\n")[start : start + count], start=start + 1)
    )
