"""`write_file`: creates or replaces a whole file. `edit_file` changes parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kode import diffs
from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.plain_text import Encoding, lines_of
from kode.tool import Brief, ToolContext, ToolOutput
from kode.tools import files


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    return _plan(context, arguments["path"], arguments["content"]).diff()


@tool(
    effect="edit",
    subject="path",
    preview=_preview,
    brief=Brief(
        description="Create a file, or replace one you have read.",
        required=("path", "content"),
    ),
)
async def write_file(context: ToolContext, path: str, content: str) -> ToolOutput:
    """Create a file, or replace one you have read."""
    change = _plan(context, path, content)
    if change.before == change.after:
        return ToolOutput(text=f"{change.name} is unchanged: it already has this content.")
    files.write(context, change.path, change.data, mode=change.mode)
    diff = change.diff()
    lines = plural(len(lines_of(change.after)), "line")
    return ToolOutput(
        text=" ".join([f"{change.done}: {lines}.", *change.notes]),
        summary=lines if change.before is None else diffs.counts(diff),
        diff=diff,
        files_changed=(str(change.path),),
    )


def _plan(context: ToolContext, path: str, content: str) -> files.Change:
    """What would be written. Raises: ToolError if that is not allowed."""
    real = files.resolve(context, path)
    name = files.shown(context, real)
    files.refuse_protected(context, real)
    if path.endswith("/") or real.is_dir():
        raise ToolError(f"{name} is a folder: give the path of a file in it.")
    if not real.exists():
        _refuse_file_as_folder(context, real)
        data = files.encode(content, Encoding(codec="utf-8"), name)
        return files.Change(
            path=real,
            name=name,
            data=data,
            mode=files.new_file_mode(),
            before=None,
            after=content,
            done=f"Created {name}",
        )
    old = files.read_whole(context, real)
    files.require_seen(context, old)
    notes: list[str] = []
    if old.text.endswith("\n") and content and not content.endswith("\n"):
        notes.append("Its last line has no line end any more.")
    after = content.removeprefix("\ufeff") if old.encoding.bom else content
    if _only_crlf(old.text) and "\r" not in after:
        # The model sees lines without their ends, so it cannot have meant to change them.
        after = after.replace("\n", "\r\n")
        notes.append("Its CRLF line ends were kept.")
    encoding = old.encoding
    if encoding.codec == "latin-1" and max(map(ord, after), default=0) > 255:
        encoding = Encoding(codec="utf-8")
        notes.append("It was Latin-1 and is UTF-8 now, for characters Latin-1 does not have.")
    return files.Change(
        path=real,
        name=name,
        data=files.encode(after, encoding, name),
        mode=old.mode,
        before=old.text,
        after=after,
        done=f"Replaced {name}",
        notes=tuple(notes),
    )


def _refuse_file_as_folder(context: ToolContext, path: Path) -> None:
    for ancestor in path.parents:
        if ancestor.is_dir():
            return
        if ancestor.exists():
            raise ToolError(
                f"{files.shown(context, ancestor)} is a file, so {files.shown(context, path)} "
                "cannot be in it: choose another path."
            )


def _only_crlf(text: str) -> bool:
    return "\r\n" in text and text.count("\n") == text.count("\r\n")
