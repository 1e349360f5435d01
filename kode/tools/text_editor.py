"""The text editor of Anthropic's models, whose API knows it by its type. It stands for calls of
`read_file`, `write_file` and `edit_file`."""

from collections.abc import Mapping
from typing import Any, Literal

from kode.contracts import Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.function_tool import tool
from kode.tools.apply_patch import patch_file
from kode.tools.edit_file import edit_file
from kode.tools.patch_text import Hunk
from kode.tools.read_file import read_file
from kode.tools.write_file import write_file


def _parts(given: Mapping[str, Any]) -> tuple[tuple[Tool, Mapping[str, Any]]]:
    path = {"path": given["path"]}
    match given["command"]:
        case "view":
            first, last = given["view_range"] or (1, -1)
            lines = {"limit": last - first + 1} if last >= first else {}
            return ((read_file, {**path, "offset": first, **lines}),)
        case "create":
            return ((write_file, {**path, "content": _given(given, "file_text")}),)
        case "str_replace":
            texts = {"old_text": _given(given, "old_str"), "new_text": given["new_str"] or ""}
            return ((edit_file, {**path, **texts}),)
        case _:
            text = given["insert_text"] or _given(given, "new_str")
            new = tuple(text.removesuffix("\n").split("\n"))
            hunk = Hunk(new=new, after_line=_given(given, "insert_line"))
            return ((patch_file, {**path, "hunks": [hunk]}),)


def _given(given: Mapping[str, Any], name: str) -> Any:
    if given[name] is None:
        raise ToolError(f"`{name}` is missing for `{given['command']}`. Nothing was changed.")
    return given[name]


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
