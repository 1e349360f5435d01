"""`apply_patch`: a patch as free text, as OpenAI's models are trained to write it.

It stands for calls of other tools, one for each file, which are judged and undone as such.
`patch_text` reads and applies patches.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kode import diffs, durable
from kode.contracts import Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.tools import files
from kode.tools.edit_file import explain
from kode.tools.patch_text import GRAMMAR, BadPatch, Hunk, Misfit, apply, read_patch
from kode.tools.replace_text import Ambiguous
from kode.tools.write_file import write_file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    file: files.FileText
    name: str
    data: bytes
    diff: str
    reindented: tuple[int, ...] = ()


def _plan(context: ToolContext, path: str, hunks: Sequence[Hunk]) -> _Plan:
    """What would be written. Raises: ToolError if a hunk does not fit."""
    file, name = _found(context, path)
    if not all(hunk.old for hunk in hunks):
        files.require_seen(context, file)  # the others quote what is there
    try:
        patched = apply(file.text, hunks)
    except Misfit as error:
        reason = _misfit(name, file.text, error)
        raise ToolError(reason, untrusted=files.outside(context, file.path)) from None
    if patched.text == file.text:
        raise ToolError(f"The patch changes nothing in {name}: nothing was written.")
    return _Plan(
        file=file,
        name=name,
        data=files.encode(patched.text, file.encoding, name),
        diff=diffs.unified_diff(name, file.text, patched.text),
        reindented=patched.reindented,
    )


def _found(context: ToolContext, path: str) -> tuple[files.FileText, str]:
    real = files.resolve(context, path)
    files.refuse_protected(context, real)
    file = files.read_whole(context, real)
    if context.only_seen:
        files.require_seen(context, file)
    return file, files.shown(context, real)


def _misfit(name: str, text: str, error: Misfit) -> str:
    which = f"Hunk {error.number} of {name}"
    if isinstance(error.reason, Ambiguous):
        lines = ", ".join(map(str, error.reason.lines[:20]))
        return (
            f"{which} fits at several lines ({lines}): put the line of its function or class after "
            "`@@`, or more lines around it. Nothing was written."
        )
    old = "\n".join(error.hunk.old)
    reason = explain(text, old) if old else "The line after `@@` is not there."
    return f"{which} does not fit. {reason}\nNothing was written: quote the lines as they are."


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    return _plan(context, arguments["path"], arguments["hunks"]).diff


@tool(effect="edit", subject="path", preview=_preview, name="edit_file")
async def patch_file(context: ToolContext, path: str, hunks: list[Hunk]) -> ToolOutput:
    """Applies hunks to a file. Not offered to models: a part of other tools."""
    plan = _plan(context, path, hunks)
    files.write(context, plan.file.path, plan.data, mode=plan.file.mode)
    lines = diffs.changed_lines(plan.diff, whole=bool(plan.reindented))
    note = " It was indented as the file is." if plan.reindented else ""
    return ToolOutput(
        text=f"Edited {plan.name} in {plural(len(hunks), 'place')}.{note}"
        + (f" It now reads:\n{lines}" if lines else ""),
        summary=diffs.counts(plan.diff),
        diff=plan.diff,
        files_changed=(str(plan.file.path),),
        untrusted=files.outside(context, plan.file.path),
    )


def _deletion(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    file, name = _found(context, arguments["path"])
    return diffs.unified_diff(name, file.text, "")


@tool(effect="edit", subject="path", preview=_deletion, name="edit_file")
async def delete_file(context: ToolContext, path: str) -> ToolOutput:
    """Deletes a text file. Not offered to models: a part of `apply_patch`. Rules and hooks about
    edits by name are about this too."""
    file, name = _found(context, path)
    try:
        with durable.open_folder(file.path.parent) as folder:
            os.unlink(file.path.name, dir_fd=folder)
    except OSError as error:
        raise ToolError(f"{name} could not be deleted: {error.strerror}.") from None
    context.seen_files.pop(str(file.path), None)
    diff = diffs.unified_diff(name, file.text, "")
    return ToolOutput(
        text=f"Deleted {name}.",
        summary=diffs.counts(diff),
        diff=diff,
        files_changed=(str(file.path),),
    )


def _parts(arguments: Mapping[str, Any]) -> Iterator[tuple[Tool, Mapping[str, Any]]]:
    try:
        sections = read_patch(arguments["input"])
    except BadPatch as error:
        raise ToolError(f"The patch was not applied. {error} Nothing was written.") from None
    for section in sections:
        match section.kind:
            case "add":
                yield write_file, {"path": section.path, "content": section.content}
            case "delete":
                yield delete_file, {"path": section.path}
            case "update":
                yield patch_file, {"path": section.path, "hunks": list(section.hunks)}


@tool(effect="edit", grammar=GRAMMAR, parts=lambda arguments: tuple(_parts(arguments)))
async def apply_patch(context: ToolContext, input: str) -> ToolOutput:
    """Add, delete or change files by a patch, as free text. Quote about three unchanged lines
    around each change; where they stand several times in the file, put the line of their function
    or class after @@."""
    raise AssertionError("its parts run")
