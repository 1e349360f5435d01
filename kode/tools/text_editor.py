"""The text editor of Anthropic's models, whose API knows it by its type. It stands for calls of
`read_file`, `write_file` and `edit_file`."""

from collections.abc import Mapping
from typing import Any, Literal

from kode.errors import ToolError
from kode.function_tool import tool
from kode.tool import Tool, ToolContext, ToolOutput
from kode.tools.apply_patch import Hunk, patch_file
from kode.tools.edit_file import edit_file
from kode.tools.read_file import read_file
from kode.tools.write_file import write_file


def _parts(arguments: Mapping[str, Any]) -> tuple[tuple[Tool, Mapping[str, Any]]]:
    path = {"path": arguments["path"]}
    match arguments["command"]:
        case "view":
            first, last = arguments["view_range"] or (1, -1)
            lines = {"limit": last - first + 1} if last >= first else {}
            return ((read_file, {**path, "offset": first, **lines}),)
        case "create":
            return ((write_file, {**path, "content": _require(arguments, "file_text")}),)
        case "str_replace":
            texts = {
                "old_text": _require(arguments, "old_str"),
                "new_text": arguments["new_str"] or "",
            }
            return ((edit_file, {**path, **texts}),)
        case _:
            text = arguments["insert_text"] or _require(arguments, "new_str")
            new = text.removesuffix("\n").split("\n")
            hunk = Hunk(new=new, after_line=_require(arguments, "insert_line"))
            return ((patch_file, {**path, "hunks": [hunk]}),)


def _require(arguments: Mapping[str, Any], name: str) -> Any:
    if arguments[name] is None:
        raise ToolError(f"`{name}` is missing for `{arguments['command']}`. Nothing was changed.")
    return arguments[name]


@tool(
    effect="edit",
    api_type="text_editor_20250728",
    name="str_replace_based_edit_tool",
    parts=_parts,
)
async def text_editor(
    context: ToolContext,
    command: Literal["view", "create", "str_replace", "insert"],
    path: str,
    view_range: tuple[int, int] | None = None,
    file_text: str | None = None,
    old_str: str | None = None,
    new_str: str | None = None,
    insert_line: int | None = None,
    insert_text: str | None = None,
) -> ToolOutput:
    """View, create and edit files. view (view_range) · create (file_text) · str_replace (old_str,
    new_str) · insert (insert_line, insert_text)."""
    raise AssertionError("its parts run")
