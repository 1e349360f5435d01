"""Where the vault keeps things: lines of facts and episodes by month, in Markdown files with a line
that sums each up, in `vault/facts` for every project and in `vault/<path-hash>` for one.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from kode.errors import MemoryRefused
from kode.memory.markdown import LINES, SECTIONS, FileFormat, display, key_of
from kode.memory.rendering import Layout
from kode.memory.statement import Statement
from kode.messages import shorten
from kode.session.record import Project

SHARED = ("facts/user.md", "facts/preferences.md")
MAX_NAME_CHARS = 100
MAX_SUMMARY_CHARS, MAX_SUMMARY_WORDS, ENTRY_WORDS = 120, 10, 5
"""The index shows a summary, so that every word costs tokens; of an entry there are fewer."""
_PATH = re.compile(r"(?:\./)*((?:facts|episodes)/[^/\\.][^/\\]*\.md)")
_SUMMARY = re.compile(r"^>[ \t]*Summary:[ \t]*(.*)$\n?", re.MULTILINE)
_SUMMARY_OF_ENTRY = re.compile(r"^\s*[-*+]?\s*\**Summary:\**\s*(.*\S)", re.MULTILINE)
_KEYS_LEFT_OUT = ("updated", "summary", "date", "created")


def make_layout(allowlist: Sequence[str] | None) -> Layout:
    """`allowlist`: the only files of facts that may be written; None for all."""
    allowed = sorted(f"facts/{name.removeprefix('facts/')}" for name in allowlist or ())

    def check(name: str, before: str, after: str) -> None:
        if allowlist is not None and not is_episodes(name) and label(name) not in allowed:
            raise MemoryRefused(
                f"{label(name)} is not among the facts files that may be written: "
                f"{', '.join(allowed) or 'none'}. Put it into one of them. Nothing was changed."
            )

    return Layout(
        facts=lambda project: [*(f"vault/{n}" for n in SHARED), f"vault/{project.hash}/facts/*.md"],
        records=lambda project: [f"vault/{project.hash}/episodes/*.md"],
        format_of=format_of,
        place_of=lambda target, scope, project: place_in(
            project, target if "/" in target else f"facts/{target.removesuffix('.md')}.md"
        ),
        label=label,
        title=label,
        kind_of=lambda place: "episode" if is_episodes(place) else "fact",
        check=check,
        derive=_derive,
    )


def place_in(project: Project, path: str) -> str:
    """The place of a file that a model or a person names. Raises: MemoryRefused."""
    match = _PATH.fullmatch(path.strip())
    if match is None or not path.isprintable() or len(path) > MAX_NAME_CHARS:
        raise MemoryRefused(
            f"{shorten(repr(path), 120)} is no file of memory. Use facts/NAME.md or "
            "episodes/YYYY-MM.md; `memory_list` shows what there is."
        )
    name = match[1]
    return f"vault/{name}" if name in SHARED else f"vault/{project.hash}/{name}"


def month_place(project: Project, at: datetime) -> str:
    """The file of the episodes of a month; `at` is local time."""
    return place_in(project, f"episodes/{at:%Y-%m}.md")


def label(place: str) -> str:
    """The name of a file below the vault: `facts/user.md`."""
    return "/".join(place.split("/")[-2:])


def is_episodes(place: str) -> bool:
    return "/episodes/" in place


def format_of(place: str) -> FileFormat:
    return SECTIONS if is_episodes(place) else LINES


def as_episode(text: str, at: datetime) -> str:
    """A text as it stands among episodes: under a heading."""
    block = text.strip()
    return block if block.startswith("## ") else f"## {at:%Y-%m-%d %H:%M}\n{block}"


def summary_of(text: str) -> str:
    """The text of the first Summary line; "" if there is none."""
    return str(next(iter(_SUMMARY.findall(text)), "")).strip()


def without_summary(text: str) -> str:
    return _SUMMARY.sub("", text, count=1)


def clean_summary(summary: str) -> str:
    """A summary that fits its line."""
    return shorten(summary.strip().removeprefix("> Summary:"), MAX_SUMMARY_CHARS)


def generate_summary(place: str, text: str) -> str:
    """The keys of a file's facts, or what its episodes say of themselves, newest first."""
    texts = format_of(place).texts(without_summary(text))
    if is_episodes(place):
        entries = [entry for entry in reversed(texts) if entry.startswith("## ")]
        phrases = list(map(_phrase_of, entries))
    else:
        facts = (text for text in texts if key_of(text) not in _KEYS_LEFT_OUT)
        phrases = [key_of(text) or display(text) for text in facts]
    count = MAX_SUMMARY_WORDS if is_episodes(place) and len(phrases) == 1 else ENTRY_WORDS
    words = (phrase.strip(" -*").replace(",", " ").split()[:count] for phrase in phrases)
    chosen = list(dict.fromkeys(filter(None, (" ".join(row).rstrip(" .;:→-–") for row in words))))
    while len(chosen) > 1 and len(" ".join(chosen).split()) > MAX_SUMMARY_WORDS:
        chosen.pop()
    return clean_summary(", ".join(chosen))


def _phrase_of(entry: str) -> str:
    """What an episode says of itself: in its summary, its title, or its first line."""
    lines = [*_SUMMARY_OF_ENTRY.findall(entry)[:1], *entry.removeprefix("## ").split("\n")]
    return next((line for line in lines if any(map(str.isalpha, line))), "")


def _derive(name: str, text: str, statements: Sequence[Statement], template: str) -> str:
    """With a title, and a summary, generated again unless somebody worded it and nothing is new."""
    stem = name.rpartition("/")[2].removesuffix(".md")
    words = re.sub("[-_]", " ", stem).title()
    title = f"# {stem} Episodes" if is_episodes(name) else f"# {words} Facts"
    if not statements:
        return "" if without_summary(text).strip() in ("", title) else text
    if not template.strip():
        text = f"{title}\n\n{text}"
    summary, new = summary_of(template), [new for new in statements if new.text not in template]
    if new:  # its writer may have given one
        summary = clean_summary(str(new[-1].details.get("summary", "")))
    elif summary == generate_summary(name, template):
        summary = ""
    summary = summary or generate_summary(name, text)
    line = f"> Summary: {summary}\n" if summary else ""
    if not line or _SUMMARY.search(text):
        return _SUMMARY.sub(lambda match: line or match[0], text, count=1)
    head, _, rest = text.lstrip("\n").partition("\n")
    above, below = (f"{head}\n\n", rest) if head.startswith("# ") else ("", text)
    return f"{above}{line}\n" + below.lstrip("\n")
