"""Reads the fenced blocks of the pages.

    ```bash      runs as it stands
    ```console   lines of `$ ` run; the lines below each are seen in the output, in order, where
                 `...` stands for anything

The blocks of a page run one after the other in one shell: what one sets, the next finds.
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")))
}

RUN = {"bash", "console"}
SHOWN = {"json", "jsonl", "yaml", "toml", "python", "text", "markdown", "html", "dockerfile"}
"""Languages of what does not run: files, and what is typed elsewhere than in a shell."""

_PARTS = re.compile(r"^(?:##+ (?P<heading>.*)|(?P<indent> *)```(?P<language>.*)\n)", re.M)


@dataclass(frozen=True)
class Block:
    page: str
    heading: str
    """The nearest above it, of level two or deeper."""
    language: str
    text: str

    @property
    def name(self) -> str:
        """By which the tables of this folder name it: its page and its first line, without what
        stands after two spaces."""
        first, _, _ = self.text.partition("\n")
        return f"{self.page}: {first.partition('  ')[0]}"

    @property
    def program(self) -> str:
        """What a shell runs of it."""
        if self.language != "console":
            return self.text
        found = re.findall(r"^\$ (.*(?:(?<=\\)\n.*)*)", self.text, re.M)
        return "\n".join(found) + "\n"

    @property
    def seen(self) -> list[str]:
        """The lines that its output has, with `...` for anything."""
        if self.language != "console":
            return []
        rest = re.sub(r"^\$ .*(?:(?<=\\)\n.*)*\n?", "", self.text, flags=re.M)
        return [line.strip() for line in rest.splitlines() if line.strip()]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = PAGES[page].read_text(encoding="utf-8")
    found, heading, at = [], "", 0
    while part := _PARTS.search(text, at):
        at = part.end()
        if part["heading"] is not None:
            heading = part["heading"]
            continue
        end = re.compile(rf"^{part['indent']}```$", re.M).search(text, at)
        assert end is not None, f"{page}: a fence is not closed"
        inside = textwrap.dedent(text[at : end.start()])
        found.append(Block(page, heading, part["language"], inside))
        at = end.end()
    return found


def unseen(block: Block, output: str) -> list[str]:
    """The lines that a block shows and its output has not, or not in this order."""
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    missing = []
    for shown in block.seen:
        pattern = re.escape(" ".join(shown.split())).replace(re.escape("..."), ".*")
        if not any(re.fullmatch(pattern, line) for line in lines):
            missing.append(shown)
            break
    return missing
