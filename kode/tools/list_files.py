"""`list_files`: lists files. `search_files` and `read_file` show their content."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.tool import ToolContext, ToolOutput
from kode.tools import file_search, files

MAX_FILES = 1_000  # about as many as `MAX_CHARS` takes
MAX_CHARS = 30_000  # 8,000 tokens
MAX_FOLDERS = 150
"""Lines of an overview, which stands for a list that is too long."""
MAX_DEPTH = 5
"""Of the folders in it."""


@tool(effect="read", subject="path", parallel=True)
async def list_files(
    context: ToolContext,
    pattern: Annotated[str | None, 'Glob: "*.py", "src/**/*.ts"'] = None,
    path: str = ".",
) -> ToolOutput:
    """List files below a folder, without those .gitignore names."""
    root = files.resolve_tree(context, path)
    if not root.is_dir():
        raise ToolError(f"{files.display_path(context, root)} is a file: use read_file to see it.")
    glob = pattern.removeprefix(f"{root}/") if pattern else None
    if glob:
        if ".." in glob.split("/"):
            raise ToolError("`pattern` goes below `path` only: give the other folder as `path`.")
        file_search.matches(glob, "")  # refuses a bad one
    listing = _Listing(root=root, glob=glob, context=context)
    ended = await file_search.search(file_search.ripgrep(context), root, listing.take)
    lines, notes = listing.lines, []
    if len(lines) < listing.total:
        count = f"{len(lines):,} of {listing.total:,} files shown. "
        for_others = " for the others"
        if overview := listing.describe_folders():
            count = f"{listing.total:,} files are too many to list: this is where they are. "
            lines, for_others = overview, ""
        notes.append(f"[{count}Narrow with pattern or path{for_others}.]")
    if ended.timed_out:
        notes.append(
            f"[Stopped after {file_search.TIMEOUT_S:.0f} s: there may be more. "
            "Give a narrower path.]"
        )
    if not lines:
        only = f" matching {glob}" if glob else ""
        lines = [f"No files{only} in {files.display_path(context, root)}."]
    return ToolOutput(
        text="\n".join(lines),
        notes=tuple(notes),
        summary=plural(listing.total, "file"),
        untrusted=files.find_outside_source(context, root),
    )


@dataclass(slots=True)
class _Listing:
    """Collects sorted paths, and keeps the first of them."""

    context: ToolContext
    root: Path
    glob: str | None
    total: int = 0
    lines: list[str] = field(default_factory=list)
    chars: int = 0
    by_depth: list[Counter[str]] = field(
        default_factory=lambda: [Counter() for _ in range(MAX_DEPTH)]
    )
    """Files of each folder, and those that lie above: by the first name of their paths, by the
    first two, and so on, as far as these are few."""

    def take(self, piece: bytes) -> bool:
        """Adds one path; always returns True, because all are counted."""
        path = os.fsdecode(piece)
        name = path[len(str(self.root).rstrip("/")) + 1 :]
        if not name or (self.glob is not None and not file_search.matches(self.glob, name)):
            return True
        self.total += 1
        if len(self.lines) < MAX_FILES and self.chars < min(MAX_CHARS, self.context.room):
            self.lines.append(files.display_path(self.context, Path(path)))
            self.chars += len(self.lines[-1]) + 1
        steps = name.split("/")
        for depth, counter in enumerate(self.by_depth, 1):
            counter["/".join([*steps[:depth], ""] if depth < len(steps) else steps)] += 1
            if len(counter) > MAX_FOLDERS:
                del self.by_depth[depth - 1 :]
                break
        return True

    def describe_folders(self) -> list[str]:
        """A line for each folder that holds some of the files; empty where they lie side by side
        in one."""
        lines = []
        for name, count in self.by_depth[-1].items() if self.by_depth else ():
            path = files.display_path(self.context, self.root / name)
            lines.append(f"{path}/ ({plural(count, 'file')})" if name.endswith("/") else path)
        return lines
