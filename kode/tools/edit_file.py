"""`edit_file`: replaces parts of a file that the model has read. Applies all edits of a call, or
none.

`replace_text` finds and replaces a text; this module also explains why one was not found.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from kode import diffs
from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.plain_text import with_line_feeds
from kode.tool import Brief, ToolContext, ToolOutput
from kode.tools import files
from kode.tools.replace_text import Ambiguous, Edit, NotFound, Replaced, replace


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    edits = _edits(
        arguments.get("old_text"),
        arguments.get("new_text"),
        arguments.get("replace_all", False),
        arguments.get("edits"),
    )
    return _plan(context, arguments["path"], edits).diff()


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
    return write_change(
        context, _plan(context, path, _edits(old_text, new_text, replace_all, edits))
    )


def read_target(context: ToolContext, path: str) -> tuple[files.FileText, str]:
    """The text file to be edited, and its name for people. Raises: ToolError."""
    real = files.resolve(context, path)
    files.refuse_protected(context, real)
    file = files.read_whole(context, real)
    if context.only_seen:
        files.require_seen(context, file)
    return file, files.shown(context, real)


def plan_change(
    file: files.FileText, name: str, replaced: Replaced, notes: tuple[str, ...]
) -> files.Change:
    """Raises: ToolError if nothing would change, or the file's encoding lacks a character."""
    if replaced.text == file.text:
        raise ToolError(
            f"This changes nothing in {name}: nothing was written. (Line ends are kept as the "
            "file has them; to convert them use a shell command.)"
        )
    return files.Change(
        path=file.path,
        name=name,
        data=files.encode(replaced.text, file.encoding, name),
        mode=file.mode,
        before=file.text,
        after=replaced.text,
        done=f"Edited {name} in {plural(replaced.count, 'place')}.",
        notes=notes,
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
        untrusted=files.outside(context, change.path),
    )


def explain_misfit(
    context: ToolContext,
    file: files.FileText,
    what: str,
    old: str,
    reason: NotFound | Ambiguous,
    advice: str,
) -> ToolError:
    """The error for an edit that has no place, or several, which the advice tells apart."""
    name = files.shown(context, file.path)
    if isinstance(reason, Ambiguous):
        count = len(reason.lines)
        lines = ", ".join(map(str, reason.lines[:20])) + (", ..." if count > 20 else "")
        loosely = "" if reason.exact else " (not counting indentation)"
        return ToolError(
            f"{what} occurs {count} times in {name}{loosely}, at lines {lines}: {advice}. "
            "Nothing was written."
        )
    return ToolError(
        f"{what} was not found in {name}. {explain(file.text, old)}\n"
        "Nothing was written: copy the lines from the file as they are.",
        untrusted=files.outside(context, file.path),
    )


def _edits(
    old_text: str | None, new_text: str | None, replace_all: bool, edits: list[Edit] | None
) -> list[Edit]:
    """Merges both ways to pass edits into one list; an empty `edits` beside a text is ignored.
    Raises: ToolError for both and for neither."""
    texts = old_text is not None or new_text is not None
    if edits and texts:
        raise ToolError("Give either old_text and new_text, or edits: not both.")
    if edits:
        return edits
    if edits is not None and not texts:
        raise ToolError("`edits` is empty: give at least one {old_text, new_text}.")
    if old_text is None or new_text is None:
        raise ToolError(
            "edit_file needs old_text and new_text, or edits: [{old_text, new_text}]. "
            "To delete text, give new_text as an empty string."
        )
    return [Edit(old_text, new_text, replace_all)]


def _plan(context: ToolContext, path: str, edits: list[Edit]) -> files.Change:
    """What would be written. Raises: ToolError if any edit cannot be applied."""
    file, name = read_target(context, path)
    if not all(_is_shown(context, file, edit) for edit in edits):
        files.require_seen(context, file)
    replaced = Replaced(text=file.text, count=0)
    notes = []
    for number, edit in enumerate(edits, start=1):
        which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        _refuse_empty(edit, which, name)
        try:
            step = replace(replaced.text, edit)
        except (NotFound, Ambiguous) as reason:
            advice = "include more of the surrounding lines, or set replace_all"
            now = dataclasses.replace(file, text=replaced.text)
            what = f"{which}old_text"
            raise explain_misfit(context, now, what, edit.old_text, reason, advice) from None
        replaced = Replaced(text=step.text, count=replaced.count + step.count)
        if step.reindented:
            notes.append(
                f"{which}old_text was found only without indentation and trailing space; "
                "new_text was indented as the file is."
            )
    return plan_change(file, name, replaced, tuple(notes))


def _is_shown(context: ToolContext, file: files.FileText, edit: Edit) -> bool:
    """Whether the old text stands once in the file, on lines that a search or a command has
    shown as they are."""
    text, old = with_line_feeds(file.text), with_line_feeds(edit.old_text)
    position = text.find(old)
    if not old or position < 0 or text.find(old, position + 1) >= 0:
        return False
    end = text.find("\n", position + len(old.removesuffix("\n")))
    lines = text[text.rfind("\n", 0, position) + 1 : None if end < 0 else end].split("\n")
    shown = context.shown_lines
    return shown.get(str(file.path), set()) | shown.get("", set()) >= set(lines)


def _refuse_empty(edit: Edit, which: str, name: str) -> None:
    if not edit.old_text:
        raise ToolError(
            f"{which}old_text is empty: give the text to replace, or use write_file for a whole "
            f"new content of {name}. Nothing was written."
        )
    if edit.old_text == edit.new_text:
        raise ToolError(
            f"{which}old_text and new_text are the same: there is nothing to change. "
            "Nothing was written."
        )


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


def explain(text: str, old: str) -> str:
    """Explains in one or more sentences why `old` is not in `text`, with the nearest lines
    numbered."""
    if not old:
        return "The line after `@@` is not there."
    text, old = with_line_feeds(text), with_line_feeds(old)
    if habit := _habit(text, old):
        return habit
    for names, same in _candidates():
        position = _place(same(text), same(old))
        if position is not None:
            return (
                f"It differs in {names} from what is there:\n{_number_lines(text, position, old)}"
            )
    if (position := _broken_otherwise(text, old)) is not None:
        return f"It differs in where the lines break:\n{_number_lines(text, position, old)}"
    if (position := _most_alike(text, old)) is not None:
        return f"The nearest lines are:\n{_number_lines(text, position, old)}"
    return "Nothing in the file is like it: check the path, or search for a word of it."


def _habit(text: str, old: str) -> str:
    """Detects two slips of models: copied line numbers of `read_file`, and literal escapes."""
    bare = re.sub(r"(?m)^\s*\d+\t", "", old)
    if bare != old and bare in text:
        return "It has the line numbers that read_file shows: leave the number and tab out."
    meant = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if meant != old and meant in text:
        return 'It has written-out escapes (\\n, \\t or \\"): give the characters themselves.'
    return ""


def _candidates() -> list[tuple[str, Callable[[str], str]]]:
    def all_of(text: str) -> str:
        for _name, same in _REASONS:
            text = same(text)
        return text

    return [*_REASONS, ("several of: case, white space, typographic characters", all_of)]


def _place(text: str, old: str) -> int | None:
    """The line, from 0, where `old` is in `text`; both include line feeds."""
    if not old.strip():
        return None
    position = text.find(old)
    return None if position < 0 else text.count("\n", 0, position)


def _broken_otherwise(text: str, old: str) -> int | None:
    words = old.split()
    if not words or len(words) > 2000:
        return None
    match = re.search(r"\s+".join(map(re.escape, words)), text)
    return None if match is None else text.count("\n", 0, match.start())


def _most_alike(text: str, old: str) -> int | None:
    """The line where most lines of `old` occur, else the line most like its first one."""
    import difflib

    lines = [_key(line) for line in text.split("\n")[:MAX_COMPARED_LINES]]
    wanted = [_key(line) for line in old.strip("\n").split("\n")]
    votes: dict[int, int] = {}
    positions: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        positions.setdefault(line, []).append(number)
    for offset, line in enumerate(wanted):
        for number in positions.get(line, ())[:50] if len(line) > 3 else ():
            votes[number - offset] = votes.get(number - offset, 0) + 1
    if votes:
        return max(0, max(votes, key=lambda start: (votes[start], -start)))
    first = next((line for line in wanted if line), "")
    near = difflib.get_close_matches(first[:200], [line[:200] for line in lines], n=1, cutoff=0.6)
    return [line[:200] for line in lines].index(near[0]) if near else None


def _key(line: str) -> str:
    return " ".join(line.translate(_TYPOGRAPHIC).translate(_INVISIBLE).casefold().split())


def _number_lines(text: str, position: int, old: str) -> str:
    lines = text.split("\n")
    count = min(old.strip("\n").count("\n") + 1, MAX_SHOWN_LINES)
    shown = [
        f"{number}\t{line if len(line) <= 300 else line[:300] + '…'}"
        for number, line in enumerate(lines[position : position + count], start=position + 1)
    ]
    return "\n".join(shown)
