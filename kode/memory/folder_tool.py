"""The memory tool of Anthropic's models over one open memory; for other models an ordinary
function."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from kode.contracts import Effect, Tool, ToolContext, ToolOutput
from kode.errors import MemoryRefused
from kode.events import MemoryChanged
from kode.function_tool import tool
from kode.memory import folder as commands
from kode.memory import frame
from kode.memory.folder import Done, Folder
from kode.memory.frame import as_tool_errors

T = TypeVar("T")

TYPE = "memory_20250818"
"""The tool's type in Anthropic's API; it needs no beta header."""

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

DESCRIPTION = """\
Remember things across sessions, in files below /memories. View /memories first: it says what \
belongs where. Save what will still be true and useful next week: what the user prefers or \
corrects, how this project is built and laid out. Do not save the current task, what the \
repository says itself, or secrets.
view (path, view_range) · create (path, file_text) · str_replace (path, old_str, new_str) · insert \
(path, insert_line, insert_text) · delete (path) · rename (old_path, new_path)."""

_ABOUT = "What memory holds."


def _effect_of(arguments: Mapping[str, Any]) -> Effect:
    return "memory-read" if arguments.get("command") == "view" else "memory"


def folder_tool(folder: Folder) -> Tool:
    """The six commands over a folder."""

    @tool(
        effect="memory",
        effect_of=_effect_of,
        target=lambda given: f"{given.get('command')} {given.get('path') or given.get('old_path')}",
        name="memory",
        description=DESCRIPTION,
        api_type=TYPE,
    )
    async def memory(
        context: ToolContext,
        command: Command,
        path: str | None = None,
        view_range: Annotated[list[int] | None, "first line and last; -1: the end"] = None,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: Annotated[int | None, "0: at the beginning"] = None,
        insert_text: str | None = None,
        old_path: str | None = None,
        new_path: str | None = None,
    ) -> ToolOutput:
        with as_tool_errors():
            match command:
                case "view":
                    done = await commands.view(folder, _given(path, "path"), view_range)
                    text = frame.wrap(_ABOUT, done.text)
                    return ToolOutput(text=text, summary=f"{path}")
                case "create":
                    text = _given(file_text, "file_text")
                    done = await commands.create(folder, _given(path, "path"), text)
                case "str_replace":
                    old = _given(old_str, "old_str")
                    done = await commands.str_replace(
                        folder, _given(path, "path"), old, new_str or ""
                    )
                case "insert":
                    text = _given(insert_text, "insert_text")
                    line = _given(insert_line, "insert_line")
                    done = await commands.insert(folder, _given(path, "path"), line, text)
                case "delete":
                    done = await commands.delete(folder, _given(path, "path"))
                case "rename":
                    old = _given(old_path, "old_path")
                    done = await commands.rename(folder, old, _given(new_path, "new_path"))
        lines = "; ".join(one.line for one in done.outcomes)
        changes = [one.change_id for one in done.outcomes if one.change_id]
        if changes:
            context.emit(MemoryChanged(text=lines, change_id=changes[-1]))
        return ToolOutput(text=frame.escape(_words(done)), summary=lines)

    return memory


def _given(value: T | None, name: str) -> T:
    if value is None:
        raise MemoryRefused(f"`{name}` is missing. Nothing was changed.")
    return value


def _words(done: Done) -> str:
    """What was done, and how memory stored it."""
    notes = [
        f"{one.line}. {one.detail}".rstrip(". ") + "."
        for one in done.outcomes
        if one.detail or not one.change_id
    ]
    return "\n".join([done.text, *notes])
