"""`edit_file` replaces parts of a file, `write_file` creates or replaces a whole one.

All edits of a call are applied, or none. The old text must match exactly (ignoring line ends);
failing that, as whole lines without indentation and trailing space, and then the new lines get the
file's indentation. If a text is not found, the model is told why.
"""

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kode.errors import ToolError
from kode.messages import plural
from kode.plain_text import (
    changed_lines,
    count_common,
    normalize_line_ends,
    split_lines,
    unified_diff,
)
from kode.tool import Tool, ToolContext, ToolOutput, tool
from kode.tools import files
from kode.values import Value, dataclass, replace

if TYPE_CHECKING:
    from kode.tools.apply_patch import Hunk


class TextChange(Value):
    """The new text of a whole file, not written yet."""

    file: files.FileText
    after: str
    done: str
    """The sentence that says, once the text is written, what was done."""
    notes: Sequence[str] = ()
    shows_lines: bool = False
    """Whether the result shows the lines around each change."""
    is_deletion: bool = False

    def preview(self) -> str:
        """The diff. Raises: ToolError for characters that the encoding lacks."""
        files.encode_text(self.after, self.file.encoding, self.file.name)
        return unified_diff(self.file.name, self.file.text, self.after)

    def write(self, context: ToolContext) -> ToolOutput:
        """Writes or deletes the file. Raises: ToolError as `preview` and `files.write_file`."""
        file, more = self.file, list[str]()
        data = files.encode_text(self.after, file.encoding, file.name)
        diff = unified_diff(file.name, file.text, self.after)
        if self.is_deletion:
            files.delete_file(context, file)
        elif file.text == self.after and not file.is_new:
            return ToolOutput(text=f"{file.name} is unchanged: it already has this content.")
        else:
            more = files.write_file(context, file.path, data)
        text, untrusted = " ".join([self.done, *self.notes, *more]), ""
        if self.shows_lines:
            lines = changed_lines(diff, whole=bool(self.notes))
            text += f" It now reads:\n{lines}" if lines else ""
            # The lines around a change come from the file.
            untrusted = files.find_outside_source(context, file.path)
        return ToolOutput(
            text=text,
            summary=count_lines(self.after) if file.is_new else count_changes(diff),
            diff=diff,
            files_changed=(str(file.path),),
            untrusted=untrusted,
        )


def count_changes(diff: str) -> str:
    """`+3 -1`: lines added and removed."""
    signs = [line[:1] for line in diff.split("\n")[2:]]
    return f"+{signs.count('+')} -{signs.count('-')}"


def count_lines(text: str) -> str:
    return plural(len(split_lines(text)), "line")


def change_tool(**more: Any) -> Callable[[Callable[..., TextChange]], Tool]:
    """Makes a tool that changes one file from a function that plans the change; `more` is passed on
    to `tool`."""

    def declare(plan: Callable[..., TextChange]) -> Tool:
        @functools.wraps(plan)
        async def run(context: ToolContext, **arguments: Any) -> ToolOutput:
            return plan(context, **arguments).write(context)

        def preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            return plan(context, **arguments).preview()

        return tool(effect="edit", subject="path", preview=preview, **more)(run)

    return declare


@change_tool()
def write_file(context: ToolContext, path: str, content: str) -> TextChange:
    """Create a file, or replace one you have read."""
    real = files.resolve(context, path)
    name = files.display_path(context, real)
    files.refuse_protected(context, real)
    if path.endswith("/") or real.is_dir():
        raise ToolError(f"{name} is a folder: give the path of a file in it.")
    nearest = next(ancestor for ancestor in (real, *real.parents) if ancestor.exists())
    if nearest != real and not nearest.is_dir():
        raise ToolError(
            f"{files.display_path(context, nearest)} is a file, so {name} cannot be in it: choose "
            "another path."
        )
    notes: list[str] = []
    if nearest != real:
        file = files.FileText(path=real, name=name, is_new=True)
    else:
        file = files.read_whole(context, real)
        if context.decision.must_read_first or str(real) in context.seen_files:
            files.require_seen(context, file)
        else:
            lines = count_lines(file.text)
            notes.append(f"It was there before, with {lines} that this session had not read.")
    before, after = file.text, content.removeprefix("\ufeff") if file.encoding.bom else content
    if "\r\n" in before and before.count("\n") == before.count("\r\n") and "\r" not in after:
        # The model sees lines without their ends, so it cannot have meant to change them.
        after = after.replace("\n", "\r\n")
        notes.append("Its CRLF line ends were kept.")
    if file.encoding.codec == "latin-1" and max(map(ord, after), default=0) > 255:
        file = replace(file, encoding=files.UTF8)
        notes.append("It was Latin-1 and is UTF-8 now, for characters Latin-1 does not have.")
    if content and not content.endswith("\n") and (not before or before.endswith("\n")):
        notes.append(f"Its last line has no line end{' any more' if before else ''}.")
    done = f"{'Created' if file.is_new else 'Replaced'} {name}: {count_lines(after)}."
    return TextChange(file=file, after=after, done=done, notes=notes)


class Replaced(Value):
    text: str
    count: int = 1
    """Number of replaced places."""
    reindented: bool = False
    """Whether it matched only without indentation and trailing space."""
    is_proven: bool
    """Whether the old text alone identifies the place; otherwise the file must have been read."""
    end: int = 0
    """The index of the line after the last replaced one; set only for a patch."""


@dataclass(eq=False)
class Misfit(Exception):
    """The old text was not found, or was found at several places."""

    lines: Sequence[int] = ()
    """The number of the first line of each place, from 1; empty if there is none."""
    exact: bool = True


@dataclass(frozen=True)
class Edit:
    old_text: str
    new_text: str
    replace_all: bool = False
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    def apply(self, text: str, position: int = 0) -> Replaced:
        """Replaces in a text with line feeds only; ignores `position`. Raises: Misfit."""
        old, new = normalize_line_ends(self.old_text), normalize_line_ends(self.new_text)
        # Overlapping places count.
        pattern = re.escape(old) if self.replace_all else f"(?={re.escape(old)})"
        places = [match.start() for match in re.finditer(pattern, text)]
        if not places:
            return self._apply_loosely(text.split("\n"), old, new)
        if len(places) > 1 and not self.replace_all:
            counts = (text.count("\n", a, b) for a, b in itertools.pairwise([0, *places]))
            raise Misfit([1 + lines for lines in itertools.accumulate(counts)])
        is_proven = len(places) == 1
        return Replaced(text=text.replace(old, new), count=len(places), is_proven=is_proven)

    def _apply_loosely(self, lines: list[str], old: str, new: str) -> Replaced:
        """Replaces lines that equal those of `old` except for indentation and trailing space."""
        old_lines = old.removesuffix("\n").split("\n")
        new_lines = (new.removesuffix("\n") if old.endswith("\n") else new).split("\n")
        if not new and old.endswith("\n"):
            new_lines = []
        stripped, count, places = [line.strip() for line in lines], len(old_lines), list[int]()
        for first in find_lines(stripped, [line.strip() for line in old_lines]):
            if not places or first >= places[-1] + count:
                places.append(first)
        if not places or (len(places) > 1 and not self.replace_all):
            raise Misfit([first + 1 for first in places], exact=False)
        for first in reversed(places):
            same = lines[first : first + count]
            lines[first : first + count] = indent_lines(old_lines, same, new_lines)
        text = "\n".join(lines)
        return Replaced(text=text, count=len(places), reindented=True, is_proven=False)


@change_tool()
def edit_file(
    context: ToolContext,
    path: str,
    old_text: str | None = None,
    new_text: str | None = None,
    replace_all: bool = False,
    edits: list[Edit] | None = None,
) -> TextChange:
    """Replace text you have seen: old_text by new_text, or edits (all or none). old_text is
    exact, without line numbers, and found once, or set replace_all."""
    if edits and (old_text is not None or new_text is not None):
        raise ToolError("Give either old_text and new_text, or edits: not both.")
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
    return plan_change(
        context, path, replacements, "include more of the surrounding lines, or set replace_all"
    )


def read_target(context: ToolContext, path: str) -> files.FileText:
    """The text file to be edited. Raises: ToolError."""
    real = files.resolve(context, path)
    files.refuse_protected(context, real)
    file = files.read_whole(context, real)
    if context.decision.must_read_first:
        files.require_seen(context, file)
    return file


def plan_change(
    context: ToolContext, path: str, replacements: "Mapping[str, Edit | Hunk]", advice: str
) -> TextChange:
    """Plans a change by `replacements`, made in order, whose keys name them to the model; `advice`
    says how to tell several places apart.

    Raises: ToolError as `read_target`; if one has no place, or several; if a place is a guess in a
        text that the model has not read; or if nothing would change.
    """
    file = read_target(context, path)
    before = normalize_line_ends(file.text)
    done, count, is_proven = Replaced(text=before, is_proven=True), 0, True
    notes = []
    for what, replacement in replacements.items():
        try:
            done = replacement.apply(done.text, done.end)
        except Misfit as misfit:
            if lines := ", ".join(map(str, misfit.lines[:20])):
                lines += ", ..." if len(misfit.lines) > 20 else ""
                loosely = "" if misfit.exact else " (not counting indentation)"
                raise ToolError(
                    f"{what} occurs {len(misfit.lines)} times in {file.name}{loosely}, at "
                    f"lines {lines}: {advice}. Nothing was written."
                ) from None
            raise ToolError(
                f"{what} was not found in {file.name}. "
                f"{explain_mismatch(done.text, replacement.old_text)}\n"
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
    if done.text == before:
        raise ToolError(
            f"This changes nothing in {file.name}: nothing was written. (Line ends are kept as the "
            "file has them; to convert them use a shell command.)"
        )
    return TextChange(
        file=file,
        after=restore_ends(file.text, done.text),
        done=f"Edited {file.name} in {plural(count, 'place')}.",
        notes=notes,
        shows_lines=True,
    )


def restore_ends(before: str, after: str) -> str:
    """Gives an edited text, which has only line feeds, the line ends of the file: unchanged lines
    keep theirs, and new lines end like their neighbours."""
    import difflib

    parts = re.split(r"(\r?\n)", before)
    old, ends, new = parts[::2], parts[1::2], after.split("\n")
    if len(set(ends)) < 2:
        return after.replace("\n", ends[0]) if ends else after
    head = count_common(old, new)
    tail = count_common(old[head:][::-1], new[head:][::-1])
    old_middle, new_middle = (lines[head : len(lines) - tail] for lines in (old, new))
    new_ends = ends[:head]
    for _, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old_middle, new_middle).get_opcodes():
        *first, last = ends[head + i1 : head + i2] or new_ends[-1:] or ends[:1]
        if count := j2 - j1:
            new_ends += [*[*first, *[last] * count][: count - 1], last]
    new_ends = [*new_ends, *ends[len(old) - tail :]][: len(new) - 1]
    return "".join(map("".join, zip(new, [*new_ends, ""], strict=True)))


def find_lines(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """Yields each index where the wanted lines begin; none if all of them are empty."""
    n = len(wanted)
    for i in range(len(lines) - n + 1) if any(wanted) else ():
        if lines[i] == wanted[0] and lines[i : i + n] == wanted:
            yield i


def indent_lines(old: Sequence[str], same: Sequence[str], new: Sequence[str]) -> list[str]:
    """The new lines, indented like the file's lines `same`, which match the old ones; new lines
    that equal an old one stay as they are in the file."""
    import difflib

    indents = {
        _leading_space(line): _leading_space(line_there)
        for line, line_there in zip(reversed(old), reversed(same), strict=True)
        if line.strip()
    }
    indented: list[str] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        is_kept = kind == "equal"
        indented += same[i1:i2] if is_kept else [_reindent(line, indents) for line in new[j1:j2]]
    return indented


def _leading_space(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(line: str, indents: Mapping[str, str]) -> str:
    """A new line, its indentation shifted like that of the nearest old line."""
    indent = _leading_space(line)
    body = line[len(indent) :]
    if shorter := [old for old in indents if indent.startswith(old)]:
        base = max(shorter, key=len)
        shifted = indents[base] + _translate_indent(indent[len(base) :], indents)
    elif longer := [old for old in indents if old.startswith(indent)]:
        base = min(longer, key=len)
        shifted = indents[base].removesuffix(_translate_indent(base[len(indent) :], indents))
    else:
        shifted = indent
    return shifted + body if body else ""


def _translate_indent(extra: str, indents: Mapping[str, str]) -> str:
    """Converts additional indentation to the file's own: tabs for spaces or spaces for tabs."""
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


def explain_mismatch(text: str, old: str) -> str:
    """Explains why `old` is not in `text`, with the nearest lines numbered."""
    old = normalize_line_ends(old)
    if not old:
        return "The line after `@@` is not there."
    # Two common slips of models.
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
    """The index where most lines of `old` occur, else that of the line most like its first."""
    import difflib

    lines = [_comparison_key(line) for line in text.split("\n")[:MAX_COMPARED_LINES]]
    wanted = [_comparison_key(line) for line in old.strip("\n").split("\n")]
    offsets = {line: offset for offset, line in enumerate(wanted) if len(line) > 3}
    if starts := Counter(n - offsets[line] for n, line in enumerate(lines) if line in offsets):
        return max(0, starts.most_common(1)[0][0])
    first = next(filter(None, wanted), "")[:200]
    near = difflib.get_close_matches(first, [line[:200] for line in lines], n=1, cutoff=0.6)
    return next((n for n, line in enumerate(lines) if line.startswith(tuple(near))), None)


def _comparison_key(line: str) -> str:
    return " ".join(line.translate(_TYPOGRAPHIC).translate(_INVISIBLE).casefold().split())


def _number_lines(text: str, start: int, old: str) -> str:
    count = min(old.strip("\n").count("\n") + 1, MAX_SHOWN_LINES)
    return "\n".join(
        f"{number}\t{line if len(line) <= 300 else line[:300] + '…'}"
        for number, line in enumerate(text.split("\n")[start : start + count], start=start + 1)
    )
