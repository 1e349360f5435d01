"""`apply_patch`: a patch as free text, as OpenAI's models are trained to write it.

It stands for calls of other tools, one for each file, which are judged and undone as such.
`patch_text` reads and applies patches.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kode import diffs, durable
from kode.errors import ToolError
from kode.function_tool import tool
from kode.tool import Tool, ToolContext, ToolOutput
from kode.tools import files
from kode.tools.edit_file import explain_misfit, plan_change, read_target, write_change
from kode.tools.patch_text import GRAMMAR, BadPatch, Hunk, Misfit, apply, read_patch
from kode.tools.write_file import write_file


def _plan(context: ToolContext, path: str, hunks: Sequence[Hunk]) -> files.Change:
    """What would be written. Raises: ToolError if a hunk does not fit."""
    file, name = read_target(context, path)
    if not all(hunk.old for hunk in hunks):
        files.require_seen(context, file)  # the others quote what is there
    try:
        patched = apply(file.text, hunks)
    except Misfit as error:
        advice = "put the line of its function or class after `@@`, or more lines around it"
        what, old = f"Hunk {error.number}", "\n".join(error.hunk.old)
        raise explain_misfit(context, file, what, old, error.reason, advice) from None
    notes = ("It was indented as the file is.",) if patched.reindented else ()
    return plan_change(file, name, patched, notes)


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    return _plan(context, arguments["path"], arguments["hunks"]).diff()


@tool(effect="edit", subject="path", preview=_preview, name="edit_file")
async def patch_file(context: ToolContext, path: str, hunks: list[Hunk]) -> ToolOutput:
    """Applies hunks to a file. Not offered to models: a part of other tools."""
    return write_change(context, _plan(context, path, hunks))


def _deletion(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    file, name = read_target(context, arguments["path"])
    return diffs.unified_diff(name, file.text, "")


@tool(effect="edit", subject="path", preview=_deletion, name="edit_file")
async def delete_file(context: ToolContext, path: str) -> ToolOutput:
    """Deletes a text file. Not offered to models: a part of `apply_patch`. Rules and hooks about
    edits by name are about this too."""
    file, name = read_target(context, path)
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
