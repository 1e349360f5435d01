"""`edit_file`: replaces parts of a file. Applies all edits of a call, or none.

`replace_text` finds and replaces a text; this module also explains why one was not found.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kode import diffs
from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.plain_text import with_line_feeds
from kode.tool import Brief, ToolContext, ToolOutput
from kode.tools import files
from kode.tools.replace_text import Ambiguous, Edit, NotFound, Replaced, replace


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    return _plan(context, **arguments).diff()


@tool(
    effect="edit",
    subject="path",
    preview=_preview,
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
    replacements = []
    for number, edit in enumerate(edits, start=1):
        what = f"Edit {number} of {len(edits)}: old_text" if len(edits) > 1 else "old_text"
        if not edit.old_text:
            raise ToolError(
                f"{what} is empty: give the text to replace, or use write_file for a whole new "
                "content of the file. Nothing was written."
            )
        if edit.old_text == edit.new_text:
            raise ToolError(
                f"{what} and new_text are the same: there is nothing to change. "
                "Nothing was written."
            )
        replacements.append(
            Replacement(
                what=what,
                old=edit.old_text,
                apply=partial(_replace, edit),
                note=f"{what} was found only without indentation and trailing space; new_text was "
                "indented as the file is.",
            )
        )
    advice = "include more of the surrounding lines, or set replace_all"
    return plan_change(context, path, replacements, advice)


def _replace(edit: Edit, text: str, position: int) -> Replaced:
    return replace(text, edit)


class Replacement(NamedTuple):
    """A part of a file's text to be replaced."""

    what: str
    """Names it, for the model."""
    old: str
    apply: Callable[[str, int], Replaced]
    """Takes the text and `Replaced.end` of the one before. Raises: NotFound, Ambiguous."""
    note: str
    """For the model, if the new lines were indented as the file is."""


def read_target(context: ToolContext, path: str) -> tuple[files.FileText, str]:
    """The text file to be edited, and its name for people. Raises: ToolError."""
    real = files.resolve(context, path)
    files.refuse_protected(context, real)
    file = files.read_whole(context, real)
    if context.decision.must_read_first:
        files.require_seen(context, file)
    return file, files.display_path(context, real)


def plan_change(
    context: ToolContext, path: str, replacements: Sequence[Replacement], advice: str
) -> files.Change:
    """What would be written. `advice` says how to tell several places apart.

    Raises: ToolError if one has no place, or several; if a place is a guess in a text that the
        model has not read; if nothing would change, or the file's encoding lacks a character.
    """
    file, name = read_target(context, path)
    done, count, is_proven = Replaced(text=file.text, is_proven=True), 0, True
    notes = []
    for replacement in replacements:
        try:
            done = replacement.apply(done.text, done.end)
        except Ambiguous as reason:
            loosely = "" if reason.exact else " (not counting indentation)"
            lines = ", ".join(map(str, reason.lines[:20]))
            lines += ", ..." if len(reason.lines) > 20 else ""
            raise ToolError(
                f"{replacement.what} occurs {len(reason.lines)} times in {name}{loosely}, at lines "
                f"{lines}: {advice}. Nothing was written."
            ) from None
        except NotFound:
            raise ToolError(
                f"{replacement.what} was not found in {name}. "
                f"{explain(done.text, replacement.old)}\n"
                "Nothing was written: copy the lines from the file as they are.",
                untrusted=files.find_outside_source(context, file.path),
            ) from None
        count += done.count
        is_proven &= done.is_proven
        if done.reindented and replacement.note not in notes:
            notes.append(replacement.note)
    if not is_proven:
        files.require_seen(context, file)
    if done.text == file.text:
        raise ToolError(
            f"This changes nothing in {name}: nothing was written. (Line ends are kept as the "
            "file has them; to convert them use a shell command.)"
        )
    return files.Change(
        path=file.path,
        name=name,
        data=files.encode(done.text, file.encoding, name),
        mode=file.mode,
        before=file.text,
        after=done.text,
        done=f"Edited {name} in {plural(count, 'place')}.",
        notes=tuple(notes),
    )


def write_change(context: ToolContext, change: files.Change) -> ToolOutput:
    """Writes an edited file, and shows the lines around each change. Raises: ToolError."""
    files.write(context, change.path, change.data, mode=change.mode)
    diff = change.diff()
    lines = diffs.changed_lines(diff, whole=bool(change.notes))
    return ToolOutput(
        text=" ".join([change.done, *change.notes]) + (f" It now reads:\n{lines}" if lines else ""),
        summary=diffs.counts(diff),
        diff=diff,
        files_changed=(str(change.path),),
        # The lines around a change come from the file.
        untrusted=files.find_outside_source(context, change.path),
    )


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
)
_SEVERAL = "several of: case, white space, typographic characters"


def _convert_all(text: str) -> str:
    for _, convert in _REASONS:
        text = convert(text)
    return text


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
    for reason, convert in (*_REASONS, (_SEVERAL, _convert_all)):
        same = convert(text)
        position = same.find(convert(old)) if convert(old).strip() else -1
        if position >= 0:
            lines = _number_lines(text, same.count("\n", 0, position), old)
            return f"It differs in {reason} from what is there:\n{lines}"
    words = old.split()
    if 0 < len(words) <= 2000 and (match := re.search(r"\s+".join(map(re.escape, words)), text)):
        line = text.count("\n", 0, match.start())
        return f"It differs in where the lines break:\n{_number_lines(text, line, old)}"
    if (near := _most_alike(text, old)) is not None:
        return f"The nearest lines are:\n{_number_lines(text, near, old)}"
    return "Nothing in the file is like it: check the path, or search for a word of it."


def _most_alike(text: str, old: str) -> int | None:
    """The line where most lines of `old` occur, else the line most like its first one."""
    import difflib

    lines = [_key(line) for line in text.split("\n")[:MAX_COMPARED_LINES]]
    wanted = [_key(line) for line in old.strip("\n").split("\n")]
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        numbers.setdefault(line, []).append(number)
    votes = Counter(
        number - offset
        for offset, line in enumerate(wanted)
        for number in numbers.get(line, ())[: 50 * (len(line) > 3)]
    )
    if votes:
        return max(0, max(votes, key=lambda start: (votes[start], -start)))
    heads = [line[:200] for line in lines]
    first = next(filter(None, wanted), "")[:200]
    near = difflib.get_close_matches(first, heads, n=1, cutoff=0.6)
    return heads.index(near[0]) if near else None


def _key(line: str) -> str:
    return " ".join(line.translate(_TYPOGRAPHIC).translate(_INVISIBLE).casefold().split())


def _number_lines(text: str, start: int, old: str) -> str:
    count = min(old.strip("\n").count("\n") + 1, MAX_SHOWN_LINES)
    return "\n".join(
        f"{number}\t{line if len(line) <= 300 else line[:300] + '…'}"
        for number, line in enumerate(text.split("\n")[start : start + count], start=start + 1)
    )
