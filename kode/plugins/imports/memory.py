"""Finds and reads the memory files of other agents, for `kode memory import`.

Reading is lenient, because the formats belong to others: what is left out is named. Markdown is
split into entries, one per bullet, paragraph or block of code. Each gets its heading or the line
that introduces it ("To build:"), because it will be read alone. Nothing is cut: the import refuses
an oversized entry later, and names it.
"""

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode.plugin import ForeignReader, expand_path, project_root

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_TYPE = re.compile(r"^\s*type:\s*[\"']?(\w+)", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_POINTER = re.compile(r"\[[^\]]*\]\((?:\./)?([^)#\s]+\.md)\)")
_ONLY_IMPORTS = re.compile(r"(?:@\S+\s*)+")
_APPLIES = re.compile(r"^(?:scope:.*\n)?applies_to:\s*cwd=([^;\n]+)", re.MULTILINE)
_ROUTES = frozenset({"rollout_summary_files", "keywords", "What's in Memory"})
"""Headings of sections in Codex's memory that only refer to its other files."""


@dataclass(frozen=True, kw_only=True)
class ForeignAgent(ForeignReader):
    """Reads the memory of one other agent for `kode memory import`."""

    name: Literal["claude", "codex", "agents", "file"]

    def list_usual_sources(self, project: Path) -> Iterable[ForeignReader.Source]:
        """The existing files in the usual places: the person's own, and those of a project."""
        home, root = _user_home(), project_root(project)
        if self.name == "claude":
            folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
            slug = re.sub(r"[^A-Za-z0-9]", "-", str(root))  # Claude Code's name for a project
            yield from self._find_existing([folder / "CLAUDE.md"], "user")
            names = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
            yield from self._find_existing([root / name for name in names])
            yield from self.list_sources(folder / "projects" / slug / "memory")
        elif self.name == "codex":
            folder = Path(os.environ.get("CODEX_HOME") or home / ".codex")
            yield from self._find_existing([*self._files(folder / "memories")])
            yield from self._find_existing([folder / "AGENTS.md"], "user")
        elif self.name == "agents":
            yield from self._find_existing([root / "AGENTS.md"])

    def list_sources(self, path: Path) -> Iterable[ForeignReader.Source]:
        """The file at a path, or this agent's files in the folder there, if they exist."""
        home = _user_home()
        is_personal = path.parent in (home / ".claude", home / ".codex") and not path.is_dir()
        files = self._files(path) if path.is_dir() else [path]
        return self._find_existing(files, "user" if is_personal else "project")

    def read(self, source: ForeignReader.Source, text: str) -> Iterator[ForeignReader.Entry | str]:
        """The entries of a file, and a sentence for each part that was left out."""
        head, body = split_front_matter(text)
        path, about = source.path, source.about
        if self.name == "codex" and path.name in ("MEMORY.md", "memory_summary.md"):
            yield from _read_codex(body.removeprefix("v1\n"), about)
            return
        if self.name == "claude" and (kind := _TYPE.search(head)):
            # The file has one fact with its reason, unless it has a list, which is several facts.
            about = "user" if kind[1] in ("user", "feedback") else "project"
            whole = body.strip()
            if whole and len(whole) <= ForeignReader.Entry.MAX_CHARS and not _ITEM.search(body):
                line = body[: body.index(whole[0])].count("\n") + 1
                yield ForeignReader.Entry(text=whole, about=about, line=line)
                return
        for block in read_blocks(body):
            pointer = _POINTER.search(block.bare) if path.name == "MEMORY.md" else None
            if pointer and (path.parent / pointer[1]).is_file():
                continue  # the entry only points to a file that is read itself
            if _ONLY_IMPORTS.fullmatch(block.bare):
                yield f"line {block.line}: it imports {block.bare}, which you may import itself"
            else:
                yield ForeignReader.Entry(text=block.text, about=about, line=block.line)

    def _files(self, folder: Path) -> list[Path]:
        if self.name == "codex":  # its other files are the sources of these two
            return [folder / "memory_summary.md", folder / "MEMORY.md"]
        return sorted(folder.glob("*.md"))

    def _find_existing(
        self, files: Iterable[Path], about: Literal["user", "project"] = "project"
    ) -> Iterator[ForeignReader.Source]:
        for path in files:
            if path.is_file():
                yield ForeignReader.Source(path=path, about=about)


def _user_home() -> Path:
    home = expand_path("~")  # stays as it is for a person without a home folder
    return home if home.is_absolute() else Path("/nonexistent")


def _read_codex(body: str, about: Literal["user", "project"]) -> Iterator[ForeignReader.Entry]:
    """The entries of Codex's `MEMORY.md` or its summary, without references to other files."""
    project = ""
    for block in read_blocks(body):
        if applies := _APPLIES.search(block.bare):
            path = expand_path(applies[1].strip().strip("`<>\"'"))
            project = str(path) if path.is_absolute() else ""  # perhaps of another machine
        elif not _ROUTES.intersection(block.headings):
            is_personal = any(title.startswith("User ") for title in block.headings)
            yield ForeignReader.Entry(
                text=block.text,
                about="user" if is_personal else about,
                line=block.line,
                project="" if is_personal else project,
            )


CLAUDE = ForeignAgent(name="claude")
CODEX = ForeignAgent(name="codex")
AGENTS_MD = ForeignAgent(name="agents")
FILE = ForeignAgent(name="file")
"""Markdown of no particular agent: only files or folders that the person names."""


_FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL
)
_MARKER = re.compile(r"\A(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|\Z)")
_LISTS = ("bullet_list", "ordered_list")
_WHOLE = ("fence", "code_block", "table")


@dataclass(frozen=True, kw_only=True)
class MarkdownEntry:
    """One entry of a Markdown text."""

    text: str
    """The entry after its heading or introducing line: `Testing: run make test`."""
    bare: str
    """The entry without its heading or introducing line."""
    line: int
    """Its first line, from 1."""
    headings: tuple[str, ...]
    """The headings above the entry, outermost first."""


def split_front_matter(text: str) -> tuple[str, str]:
    """Returns the YAML front matter of a text, and the text with blank lines in place of the front
    matter, so that line numbers stay the same."""
    head = _FRONT_MATTER.match(text)
    if head is None:
        return "", text
    return head[1], "\n" * head[0].count("\n") + text[head.end() :]


def read_blocks(text: str) -> Iterator[MarkdownEntry]:
    """The entries of a text, in order. Headings, rules and comments are not entries."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    lines = text.split("\n")
    headings: list[tuple[int, str]] = []
    lead: MarkdownEntry | None = None
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    for node in SyntaxTreeNode(parsed).children:
        raw, line = _node_source(node, lines)
        inside = tuple(title for _, title in headings)
        # The file's title is too general to introduce a single entry.
        under = next((title for level, title in headings[::-1] if level > 1), "")
        if lead is not None and node.type in _WHOLE:
            yield replace(lead, text=f"{lead.text}\n{raw}", bare=f"{lead.bare}\n{raw}")
        elif node.type in _LISTS:
            yield from _list_items(node, lines, lead.text if lead else under, inside)
        elif lead is not None:
            yield lead
        is_used, lead = lead is not None and node.type in _WHOLE, None
        if node.type == "heading":
            level = int(node.tag[1:])
            title = node.children[0].content if node.children else ""
            headings = [pair for pair in headings if pair[0] < level] + [(level, title)]
        elif is_used or node.type in (*_LISTS, "hr") or not raw or raw.startswith("<!--"):
            continue
        elif node.type == "paragraph" and raw.endswith(":"):
            lead = _make_entry(raw, under, line, inside)
        else:
            yield _make_entry(raw, under, line, inside)
    if lead is not None:
        yield lead


def _list_items(
    node: "SyntaxTreeNode", lines: Sequence[str], under: str, inside: tuple[str, ...]
) -> Iterator[MarkdownEntry]:
    for item in node.children:
        raw, line = _node_source(item, lines)
        head, _, rest = _MARKER.sub("", raw, count=1).partition("\n")
        text = f"{head}\n{textwrap.dedent(rest)}".strip()
        nested = [child for child in item.children if child.type in _LISTS]
        if (
            len(text) > ForeignReader.Entry.MAX_CHARS
            and nested
            and item.children[0].type == "paragraph"
        ):
            # Too long for one entry: its parts, each with the line that introduces them.
            above = _make_entry(item.children[0].children[0].content, under, 0, inside).text
            for inner in nested:
                yield from _list_items(inner, lines, above, inside)
        elif text:
            yield _make_entry(text, under, line, inside)


def _node_source(node: "SyntaxTreeNode", lines: Sequence[str]) -> tuple[str, int]:
    """The text of a node, and its first line, from 1."""
    first, end = node.map or (0, 0)
    return textwrap.dedent("\n".join(lines[first:end])).strip("\n").rstrip(), first + 1


def _make_entry(bare: str, under: str, line: int, headings: tuple[str, ...]) -> MarkdownEntry:
    text = bare
    if under:
        gap = "\n" if bare.startswith(("```", "~~~", "|", "    ")) else " "
        text = f"{under.rstrip(':')}:{gap}{bare}"
    return MarkdownEntry(text=text, bare=bare, line=line, headings=headings)
