"""`apply_patch`: a patch in the V4A format, as OpenAI's models are trained to write it; and
`text_editor`, the editor of Anthropic's models, whose API knows it by its type.

A call stands for calls of other tools, one for each file, which are judged and undone as such. A
hunk is found by its kept and removed lines, after the line that `@@` names; without `@@` the lines
must occur only once in the file, since the first of several places is a guess.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from kode import values
from kode.errors import ToolError
from kode.tool import Tool, ToolContext, ToolOutput, tool
from kode.tools.edit import (
    Misfit,
    Replaced,
    TextChange,
    change_tool,
    edit_file,
    find_lines,
    indent_lines,
    plan_change,
    read_target,
    write_file,
)
from kode.tools.read_file import read_file
from kode.values import dataclass, field

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"

GRAMMAR = r"""start: begin section+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
section: add | delete | update
add: "*** Add File: " NAME LF ("+" REST LF)+
delete: "*** Delete File: " NAME LF
update: "*** Update File: " NAME LF hunk+
hunk: anchor+ line* last? | line+ last?
anchor: ("@@" | "@@ " NAME) LF
line: ("+" | "-" | " ") REST LF
last: "*** End of File" LF
NAME: /[^\n]+/
REST: /[^\n]*/
%import common.LF
"""
"""The format in Lark's notation, to which OpenAI's server holds the model."""


@dataclass(kw_only=True)
class Hunk:
    old: list[str] = field(default_factory=list)
    """Kept and removed lines, without their ends."""
    new: list[str] = field(default_factory=list)
    """Kept and added lines."""
    anchors: list[str] = field(default_factory=list)
    """Lines that come before it, in order."""
    at_end: bool = False
    """Whether it ends with the file."""
    after_line: int | None = None
    """The line, from 1, that `new` follows; 0 stands for the start. Then `old` is empty."""

    @property
    def old_text(self) -> str:
        return "\n".join(self.old)

    def apply(self, text: str, position: int = 0) -> Replaced:
        """The text with the hunk applied, preferably after the line at index `position`.
        Raises: Misfit."""
        lines = text.split("\n")
        # What follows the last line end is no line.
        count = len(lines) - (lines[-1] == "")
        hunk, first, exact = _place_hunk(lines[:count], self, position)
        same = lines[first : first + len(hunk.old)]
        lines[first : first + len(hunk.old)] = indent_lines(hunk.old, same, hunk.new)
        return Replaced(
            text="\n".join(lines),
            reindented=not exact,
            is_proven=bool(self.old),
            end=first + len(hunk.new),
        )


@change_tool(name="edit_file")
def patch_file(context: ToolContext, path: str, hunks: list[Hunk]) -> TextChange:
    """Applies hunks to a file. Not offered to models: a part of other tools."""
    replacements = {f"Hunk {number}": hunk for number, hunk in enumerate(hunks, start=1)}
    advice = "put the line of its function or class after `@@`, or more lines around it"
    return plan_change(context, path, replacements, advice)


@change_tool(name="edit_file")
def delete_file(context: ToolContext, path: str) -> TextChange:
    """Deletes a text file. Not offered to models: a part of `apply_patch`. Rules and hooks about
    edits by name are about this too."""
    file = read_target(context, path)
    return TextChange(file=file, after="", done=f"Deleted {file.name}.", is_deletion=True)


@tool(
    effect="edit",
    grammar=GRAMMAR,
    parts=lambda arguments: tuple(read_patch(arguments["input"])),
)
async def apply_patch(context: ToolContext, input: str) -> ToolOutput:
    """Add, delete or change files by a patch, as free text. Quote about three unchanged lines
    around each change; where they stand several times in the file, put the line of their function
    or class after @@."""
    raise AssertionError("its parts run")


def _editor_parts(arguments: Mapping[str, Any]) -> tuple[tuple[Tool, Mapping[str, Any]]]:
    part: Tool = read_file
    more: dict[str, Any] = {}
    match arguments["command"]:
        case "view":
            first, last = arguments["view_range"] or (1, -1)
            more = {"offset": first, "limit": last - first + 1 if last >= first else 0}
        case "create":
            part, more = write_file, {"content": _require_argument(arguments, "file_text")}
        case "str_replace":
            old, new = _require_argument(arguments, "old_str"), arguments["new_str"] or ""
            part, more = edit_file, {"old_text": old, "new_text": new}
        case _:
            text = arguments["insert_text"] or _require_argument(arguments, "new_str")
            new_lines, line = (
                text.removesuffix("\n").split("\n"),
                _require_argument(arguments, "insert_line"),
            )
            part, more = patch_file, {"hunks": [Hunk(new=new_lines, after_line=line)]}
    return ((part, {"path": arguments["path"], **more}),)


def _require_argument(arguments: Mapping[str, Any], name: str) -> Any:
    if arguments[name] is None:
        raise ToolError(f"`{name}` is missing for `{arguments['command']}`. Nothing was changed.")
    return arguments[name]


@tool(
    effect="edit",
    api_type="text_editor_20250728",
    name="str_replace_based_edit_tool",
    parts=_editor_parts,
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


def read_patch(text: str) -> Iterator[tuple[Tool, Mapping[str, Any]]]:
    """Yields the calls that a patch stands for. Raises: ToolError if the text is not a patch."""
    lines = text.replace("\r\n", "\n").split("\n")
    begins = [index for index, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [index for index, line in enumerate(lines) if line.strip() == END]
    if not begins or not ends or ends[-1] < begins[0]:
        raise _fault(f"It has to begin with the line `{BEGIN}` and end with `{END}`.")
    # What is around it, such as a fence or a here-document, is no part of it.
    body = lines[begins[0] + 1 : ends[-1]]
    heads = [i for i, line in enumerate(body) if line.startswith((_ADD, _DELETE, _UPDATE))]
    if not heads or any(line.strip() for line in body[: heads[0]]):
        raise _fault(f"After `{BEGIN}` has to come `*** Update File: PATH`, `Add` or `Delete`.")
    for start, following in itertools.pairwise([*heads, len(body)]):
        kind, _, path = body[start].partition(": ")
        path, lines = path.strip(), body[start + 1 : following]
        if _ADD.startswith(kind):
            if wrong := [line for line in lines if line and line[0] != "+"]:
                raise _fault(
                    f"Each line of the new file {path} begins with `+`; one is {wrong[0]!r}."
                )
            yield write_file, {"path": path, "content": "".join(f"{it[1:]}\n" for it in lines)}
        elif _DELETE.startswith(kind):
            yield delete_file, {"path": path}
        else:
            yield patch_file, {"path": path, "hunks": _read_hunks(path, lines)}


def _fault(reason: str) -> ToolError:
    return ToolError(f"The patch was not applied. {reason} Nothing was written.")


def _read_hunks(path: str, lines: Sequence[str]) -> list[Hunk]:
    if lines and lines[0].startswith(_MOVE):
        raise _fault(f"It cannot move {path}: do that with `git mv` or `mv` in the shell.")
    hunks = [hunk := Hunk()]
    for index, line in enumerate(lines):
        if (line.startswith("@@") or hunk.at_end) and (hunk.old or hunk.new):
            hunks.append(hunk := Hunk())
        if line.startswith("@@"):
            hunk.anchors += filter(None, [line[2:].strip().removesuffix("@@").strip()])
        elif line.rstrip() == _END_OF_FILE:
            hunk.at_end = True
        elif line[:1] not in ("+", "-", " ", ""):
            raise _fault(
                f"In the section of {path} each line begins with `+`, `-`, a space or `@@`; one is "
                f"{line!r}."
            )
        elif line or index < len(lines) - 1:  # not the blank line before the next section
            hunk.old += () if line.startswith("+") else (line[1:],)
            hunk.new += () if line.startswith("-") else (line[1:],)
    hunks = [hunk for hunk in hunks if hunk.old or hunk.new]
    if not hunks:
        raise _fault(f"The section of {path} changes nothing: it has no lines with + or -.")
    return hunks


_TRIMS = sorted(itertools.product(range(4), repeat=2), key=sum)[1:]


def _place_hunk(lines: Sequence[str], hunk: Hunk, position: int) -> tuple[Hunk, int, bool]:
    """The hunk and its place, see `_find_place`. If its kept lines changed or were misremembered,
    up to three of them are dropped at each end, provided that the rest occurs only once."""
    try:
        return hunk, *_find_place(lines, hunk, position)
    except Misfit as misfit:
        for first, last in () if misfit.lines else _TRIMS:
            old, new = (lines[first : len(lines) - last] for lines in (hunk.old, hunk.new))
            is_kept = hunk.old[:first] == hunk.new[:first] and (
                not last or hunk.old[-last:] == hunk.new[-last:]
            )
            if is_kept and len(hunk.old) > first + last:
                shorter = values.replace(hunk, old=old, new=new, at_end=False)
                with contextlib.suppress(Misfit):
                    return shorter, *_find_place(lines, shorter, position, once=True)
        raise


def _find_place(
    lines: Sequence[str], hunk: Hunk, position: int, *, once: bool = False
) -> tuple[int, bool]:
    """The index of the hunk's first line, and whether its lines match except for trailing space.
    With `once`, several places after the anchor are a misfit, too. Raises: Misfit."""
    if hunk.after_line is not None:
        if not 0 <= hunk.after_line <= len(lines):
            raise Misfit
        return hunk.after_line, True
    is_anchored = bool(hunk.anchors)
    for anchor in hunk.anchors:
        offset = _find_anchor(lines, anchor, position)
        position, is_anchored = (position, False) if offset is None else (offset + 1, is_anchored)
    if not hunk.old:
        if hunk.anchors and not is_anchored:
            raise Misfit
        return (position if is_anchored else len(lines)), True
    for exact, key in ((True, str.rstrip), (False, str.strip)):
        places = list(find_lines([key(line) for line in lines], [key(line) for line in hunk.old]))
        if hunk.at_end:
            places = [at for at in places if at + len(hunk.old) == len(lines)] or places
        # A hunk may begin with the line of its anchor.
        following = [at for at in places if at >= position - is_anchored]
        if len(following) == 1 or (following and is_anchored and not once):
            return following[0], exact
        if len(places) == 1:
            return places[0], exact
        if places:
            raise Misfit([at + 1 for at in places], exact=exact)
    raise Misfit


def _find_anchor(lines: Sequence[str], anchor: str, position: int) -> int | None:
    """The index of the next line that, stripped, is the anchor, else of the only one with it."""
    rest = [line.strip() for line in lines[position:]]
    if anchor in rest:
        return position + rest.index(anchor)
    partial_matches = [index for index, line in enumerate(rest) if anchor in line]
    return position + partial_matches[0] if len(partial_matches) == 1 else None
