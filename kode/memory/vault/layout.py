"""Where the vault keeps things: lines of facts and episodes by month, in Markdown files with a line
that sums each up.

    vault/facts/user.md  preferences.md       about the person, the same in every project
    vault/<path-hash>/facts/  episodes/       of one project

A name (`facts/user.md`) shows which of the two it is.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from kode.contracts import Project
from kode.errors import MemoryRefused
from kode.memory.markdown import LINES, SECTIONS, Format, display, key_of
from kode.memory.rendering import Layout
from kode.memory.statement import Statement
from kode.messages import shorten

SHARED = ("facts/user.md", "facts/preferences.md")
MAX_NAME_CHARS = 100
MAX_SUMMARY_CHARS, MAX_SUMMARY_WORDS = 120, 10
"""The index shows it, so that every word costs tokens."""
ENTRY_WORDS = 5
"""Words for each episode in the summary of several."""
_PATH = re.compile(r"(?:\./)*((?:facts|episodes)/[^/\\.][^/\\]*\.md)")
_MONTH = re.compile(r"episodes/\d{4}-(?:0[1-9]|1[0-2])\.md")
_SUMMARY = re.compile(r"^>[ \t]*Summary:[ \t]*(.*)$\n?", re.MULTILINE)
_OWN_SUMMARY = re.compile(r"^\s*[-*+]?\s*\**Summary:\**\s*(.*\S)", re.MULTILINE)
_KEYS_LEFT_OUT = ("updated", "summary", "date", "created")


def make_layout(allowlist: Sequence[str] | None) -> Layout:
    """`allowlist`: the only files of facts that may be written; None for all."""
    allowed = (
        None if allowlist is None else {f"facts/{n.removeprefix('facts/')}" for n in allowlist}
    )

    def check(name: str, before: str, after: str) -> None:
        short = label(name)
        if is_episodes(name) and not _MONTH.fullmatch(short):
            raise MemoryRefused(
                f"{short}: episodes are kept by month, as episodes/2026-03.md. "
                "Use `memory_append`, which finds the month."
            )
        if allowed is not None and not is_episodes(name) and short not in allowed:
            raise MemoryRefused(
                f"{short} is not among the facts files that may be written: "
                f"{', '.join(sorted(allowed)) or 'none'}. Put it into one of them. Nothing was "
                "changed."
            )

    return Layout(
        facts=lambda project: [*(f"vault/{n}" for n in SHARED), f"vault/{project.hash}/facts/*.md"],
        records=lambda project: [f"vault/{project.hash}/episodes/*.md"],
        format_of=_format_of,
        place_of=_place_of,
        label=label,
        title=label,
        kind_of=lambda place: "episode" if is_episodes(place) else "fact",
        check=check,
        derive=_derive,
    )


def place_in(project: Project, path: str) -> str:
    """The place of a file that a model or a person names below the vault. Raises: MemoryRefused
    that says what is allowed."""
    match = _PATH.fullmatch(path.strip())
    if match is None or not path.isprintable() or len(path) > MAX_NAME_CHARS:
        raise MemoryRefused(
            f"{shorten(path if path.isprintable() else repr(path), 120)} is no file of memory. Use "
            "facts/NAME.md or episodes/YYYY-MM.md; `memory_list` shows what there is."
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


def as_episode(text: str, at: datetime) -> str:
    """A text as it stands among episodes: under a heading."""
    block = text.strip()
    has_heading = any(line.startswith("## ") for line in block.split("\n"))
    return block if has_heading else f"## {at:%Y-%m-%d %H:%M}\n{block}"


def summary_of(text: str) -> str:
    """The text of the first Summary line; "" if there is none."""
    match = _SUMMARY.search(text)
    return match[1].strip() if match else ""


def without_summary(text: str) -> str:
    return _SUMMARY.sub("", text, count=1)


def clean_summary(summary: str) -> str:
    """A summary that fits its line."""
    line = " ".join(summary.split()).removeprefix("> Summary:").strip()
    return line if len(line) <= MAX_SUMMARY_CHARS else f"{line[: MAX_SUMMARY_CHARS - 1]}…"


def generate_summary(place: str, text: str) -> str:
    """A summary made of a file without a model: the keys of its facts, or what its episodes say of
    themselves, newest first."""
    pieces = _format_of(place).texts(without_summary(text))
    phrases = _of_episodes(pieces) if is_episodes(place) else _of_facts(pieces)
    chosen: list[str] = []
    for phrase in dict.fromkeys(" ".join(phrase.split()) for phrase in phrases):
        line = ", ".join([*chosen, phrase])
        if chosen and (len(line.split()) > MAX_SUMMARY_WORDS or len(line) > MAX_SUMMARY_CHARS):
            break
        chosen += [phrase] if phrase else []
    return clean_summary(", ".join(chosen))


def _of_facts(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        if key := key_of(text):
            yield "" if key in _KEYS_LEFT_OUT else key
        else:
            yield _first_words(display(text), 3)


def _of_episodes(texts: Sequence[str]) -> Iterable[str]:
    entries = [text for text in texts if text.startswith("## ")]
    for entry in reversed(entries):
        title, _, rest = entry[3:].partition("\n")
        match = _OWN_SUMMARY.search(rest)
        first = next((line.strip(" -*") for line in rest.split("\n") if line.strip()), title)
        phrase = match[1] if match else title if re.search(r"[^\W\d_]", title) else first
        yield _first_words(phrase, ENTRY_WORDS if len(entries) > 1 else MAX_SUMMARY_WORDS)


def _first_words(text: str, count: int) -> str:
    return " ".join(text.replace(",", " ").split()[:count]).rstrip(" .;:→-–")


def _derive(name: str, text: str, statements: Sequence[Statement], template: str) -> str:
    """A new file gets its title. The Summary line is generated again, unless somebody worded it
    and nothing was added since."""
    if not statements:
        return "" if without_summary(text).strip() in ("", _title_of(name)) else text
    if not template.strip():
        text = f"{_title_of(name)}\n\n{text}"
    new = [statement for statement in statements if statement.text not in template]
    if new:
        summary = clean_summary(str(new[-1].details.get("summary", "")))
        summary = summary or generate_summary(name, text)
    else:
        summary = summary_of(template)
        if not summary or summary == generate_summary(name, template):
            summary = generate_summary(name, text)
    return _with_summary(text, summary) if summary else text


def _with_summary(text: str, summary: str) -> str:
    line = f"> Summary: {summary}\n"
    if _SUMMARY.search(text):
        return _SUMMARY.sub(lambda match: line, text, count=1)
    head, _, rest = text.lstrip("\n").partition("\n")
    if head.startswith("# "):
        return f"{head}\n\n{line}\n{rest.lstrip(chr(10))}"
    return f"{line}\n{text.lstrip(chr(10))}"


def _title_of(name: str) -> str:
    """The heading of a new file: `# User Facts`, `# 2026-02 Episodes`."""
    stem = name.rpartition("/")[2].removesuffix(".md")
    if is_episodes(name):
        return f"# {stem} Episodes"
    return f"# {stem.replace('-', ' ').replace('_', ' ').title()} Facts"


def _format_of(place: str) -> Format:
    return SECTIONS if is_episodes(place) else LINES


def _place_of(target: str, scope: str, project: Project) -> str:
    """By the name of a file, or of a file of facts without its folder."""
    return place_in(project, target if "/" in target else f"facts/{target.removesuffix('.md')}.md")
