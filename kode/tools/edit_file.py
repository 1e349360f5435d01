"""`edit_file`: replaces parts of a file the model has read. All edits of a call happen, or none.

How a text is found and replaced is `replace_text`; why it was not found, `nearest`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from kode.contracts import ToolContext, ToolOutput
from kode.errors import ToolError
from kode.function_tool import tool
from kode.tools import diffs, files, nearest
from kode.tools.replace_text import Ambiguous, Edit, NotFound, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    file: files.FileText
    name: str
    data: bytes
    after: str
    places: int
    """How many places were replaced."""
    notes: tuple[str, ...]


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    plan = _planned(
        context,
        arguments["path"],
        _edits(
            arguments.get("old_text"),
            arguments.get("new_text"),
            arguments.get("replace_all", False),
            arguments.get("edits"),
        ),
    )
    return diffs.unified(plan.name, plan.file.text, plan.after)


@tool(effect="edit", subject="path", preview=_preview)
async def edit_file(
    context: ToolContext,
    path: str,
    old_text: Annotated[str | None, "Exact text, found once; no line numbers"] = None,
    new_text: str | None = None,
    replace_all: bool = False,
    edits: Annotated[list[Edit] | None, "Several at once, in order, all or none"] = None,
) -> ToolOutput:
    """Replace text in a file you have read. Give old_text and new_text, or edits. Take enough
    lines into old_text to make it unique, or set replace_all."""
    plan = _planned(context, path, _edits(old_text, new_text, replace_all, edits))
    files.write(context, plan.file.path, plan.data, mode=plan.file.mode)
    diff = diffs.unified(plan.name, plan.file.text, plan.after)
    places = f"{plan.places} place{'s' if plan.places != 1 else ''}"
    parts = [f"Edited {plan.name} in {places}.", *plan.notes]
    lines = diffs.changed_lines(diff)
    return ToolOutput(
        text=" ".join(parts) + (f" It now reads:\n{lines}" if lines else ""),
        summary=diffs.counts(diff),
        diff=diff,
        files_changed=(str(plan.file.path),),
        # The lines around what was changed are the file's.
        untrusted=files.outside(context, plan.file.path),
    )


def _edits(
    old_text: str | None, new_text: str | None, replace_all: bool, edits: list[Edit] | None
) -> list[Edit]:
    """Both spellings as one list. Raises ToolError for a mixture and for neither."""
    if edits is not None and (old_text is not None or new_text is not None):
        raise ToolError("Give either old_text and new_text, or edits: not both.")
    if edits is not None:
        if not edits:
            raise ToolError("`edits` is empty: give at least one {old_text, new_text}.")
        return edits
    if old_text is None or new_text is None:
        raise ToolError(
            "edit_file needs old_text and new_text, or edits: [{old_text, new_text}]. "
            "To delete text, give new_text as an empty string."
        )
    return [Edit(old_text, new_text, replace_all)]


def _planned(context: ToolContext, path: str, edits: list[Edit]) -> _Plan:
    """What would be written. Raises ToolError when anything of it cannot be."""
    real = files.resolve(context, path)
    name = files.shown(context, real)
    files.refuse_protected(context, real)
    file = files.read_whole(context, real)
    files.require_seen(context, file)
    text, places, notes = file.text, 0, []
    for number, edit in enumerate(edits, start=1):
        which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        _refuse_empty(edit, which, name)
        try:
            replaced = replace(text, edit)
        except NotFound:
            reason = _not_found(which, name, text, edit)
            raise ToolError(reason, untrusted=files.outside(context, real)) from None
        except Ambiguous as error:
            raise ToolError(_ambiguous(which, name, error)) from None
        text, places = replaced.text, places + replaced.count
        if replaced.reindented:
            notes.append(
                f"{which}old_text was found only without indentation and trailing space; "
                "new_text was indented as the file is."
            )
    if text == file.text:
        raise ToolError(
            f"The edits change nothing in {name}: nothing was written. (Line ends are kept as the "
            "file has them; to convert them use a shell command.)"
        )
    data = files.encode(text, file.encoding, name)
    return _Plan(file=file, name=name, data=data, after=text, places=places, notes=tuple(notes))


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


def _not_found(which: str, name: str, text: str, edit: Edit) -> str:
    reason = nearest.explain(text, edit.old_text)
    return (
        f"{which}old_text was not found in {name}. {reason}\n"
        "Nothing was written: copy old_text from the file as it is."
    )


def _ambiguous(which: str, name: str, error: Ambiguous) -> str:
    count = len(error.lines)
    lines = ", ".join(map(str, error.lines[:20])) + (", ..." if count > 20 else "")
    loosely = "" if error.exact else " (not counting indentation)"
    return (
        f"{which}old_text occurs {count} times in {name}{loosely}, at lines {lines}: include more "
        "of the surrounding lines, or set replace_all. Nothing was written."
    )
