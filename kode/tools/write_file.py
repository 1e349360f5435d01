"""`write_file`: creates or replaces a whole file. `edit_file` changes parts."""

from dataclasses import replace

from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.plain_text import Encoding, lines_of
from kode.tool import Brief, ToolContext, ToolOutput
from kode.tools import files


@tool(
    effect="edit",
    subject="path",
    preview=lambda context, arguments: _plan(context, **arguments).preview(),
    brief=Brief(
        description="Create a file, or replace one you have read.",
        required=("path", "content"),
    ),
)
async def write_file(context: ToolContext, path: str, content: str) -> ToolOutput:
    """Create a file, or replace one you have read."""
    change = _plan(context, path, content)
    if change.file.text == change.after and not change.file.is_new:
        return ToolOutput(text=f"{change.name} is unchanged: it already has this content.")
    return change.write(context)


def _plan(context: ToolContext, path: str, content: str) -> files.Change:
    """What would be written. Raises: ToolError if that is not allowed."""
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
        utf8, mode = Encoding(codec="utf-8"), files.new_file_mode()
        file = files.FileText(path=real, data=b"", text="", encoding=utf8, mode=mode, is_new=True)
    else:
        file = files.read_whole(context, real)
        if context.decision.must_read_first or str(real) in context.seen_files:
            files.require_seen(context, file)
        else:
            lines = plural(len(lines_of(file.text)), "line")
            notes.append(f"It was there before, with {lines} that this session had not read.")
    before, after = file.text, content.removeprefix("\ufeff") if file.encoding.bom else content
    if "\r\n" in before and before.count("\n") == before.count("\r\n") and "\r" not in after:
        # The model sees lines without their ends, so it cannot have meant to change them.
        after = after.replace("\n", "\r\n")
        notes.append("Its CRLF line ends were kept.")
    if file.encoding.codec == "latin-1" and max(map(ord, after), default=0) > 255:
        file = replace(file, encoding=Encoding(codec="utf-8"))
        notes.append("It was Latin-1 and is UTF-8 now, for characters Latin-1 does not have.")
    if content and not content.endswith("\n") and (not before or before.endswith("\n")):
        notes.append(f"Its last line has no line end{' any more' if before else ''}.")
    lines = plural(len(lines_of(after)), "line")
    done = f"{'Created' if file.is_new else 'Replaced'} {name}: {lines}."
    return files.Change(file=file, name=name, after=after, done=done, notes=notes)
