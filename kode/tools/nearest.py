"""Why a text was not found, and what comes nearest: the text of an error, nothing else."""

import re
import unicodedata
from collections.abc import Callable

from kode.tools.files import with_line_feeds

MAX_COMPARED_LINES = 20_000
MAX_SHOWN_LINES = 12

_TYPOGRAPHIC = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"',
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-", "…": "...",
    }
)  # fmt: skip
_INVISIBLE = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u3000": " "}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
)

_REASONS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("typographic quotes or dashes", lambda text: text.translate(_TYPOGRAPHIC)),
    ("upper and lower case", str.casefold),
    ("no-break spaces or invisible characters", lambda text: text.translate(_INVISIBLE)),
    ("tabs against spaces", lambda text: re.sub(r"[ \t]*\t[ \t]*| {2,}", " ", text)),
    ("white space", lambda text: re.sub(r"[ \t]+", " ", re.sub(r"[ \t]*\n[ \t]*", "\n", text))),
    ("composed against decomposed letters", lambda text: unicodedata.normalize("NFC", text)),
    ("line ends (single carriage returns)", lambda text: text.replace("\r", "\n")),
)


def explain(text: str, old: str) -> str:
    """One or more sentences on why `old` is not in `text`, with the nearest lines numbered."""
    text, old = with_line_feeds(text), with_line_feeds(old)
    if habit := _habit(text, old):
        return habit
    for names, same in _candidates():
        at = _place(same(text), same(old))
        if at is not None:
            return f"It differs in {names} from what is there:\n{_numbered(text, at, old)}"
    if (at := _broken_otherwise(text, old)) is not None:
        return f"It differs in where the lines break:\n{_numbered(text, at, old)}"
    if (at := _most_alike(text, old)) is not None:
        return f"The nearest lines are:\n{_numbered(text, at, old)}"
    return "Nothing in the file is like it: check the path, or search for a word of it."


def _habit(text: str, old: str) -> str:
    """Two slips of models: line numbers of `read_file` copied, and escapes written out."""
    bare = re.sub(r"(?m)^\s*\d+\t", "", old)
    if bare != old and bare in text:
        return "It has the line numbers that read_file shows: leave the number and tab out."
    meant = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if meant != old and meant in text:
        return 'It has written-out escapes (\\n, \\t or \\"): give the characters themselves.'
    return ""


def _candidates() -> list[tuple[str, Callable[[str], str]]]:
    def all_of(text: str) -> str:
        for _name, same in _REASONS:
            text = same(text)
        return text

    return [*_REASONS, ("several of: case, white space, typographic characters", all_of)]


def _place(text: str, old: str) -> int | None:
    """The line, from 0, where `old` is in `text`; both with their line feeds."""
    if not old.strip():
        return None
    at = text.find(old)
    return None if at < 0 else text.count("\n", 0, at)


def _broken_otherwise(text: str, old: str) -> int | None:
    words = old.split()
    if not words or len(words) > 2000:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return None if found is None else text.count("\n", 0, found.start())


def _most_alike(text: str, old: str) -> int | None:
    """The line where most lines of `old` are found, else the line most like its first one."""
    import difflib

    lines = [_key(line) for line in text.split("\n")[:MAX_COMPARED_LINES]]
    wanted = [_key(line) for line in old.strip("\n").split("\n")]
    votes: dict[int, int] = {}
    positions: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        positions.setdefault(line, []).append(number)
    for offset, line in enumerate(wanted):
        for number in positions.get(line, ())[:50] if len(line) > 3 else ():
            votes[number - offset] = votes.get(number - offset, 0) + 1
    if votes:
        return max(0, max(votes, key=lambda start: (votes[start], -start)))
    first = next((line for line in wanted if line), "")
    near = difflib.get_close_matches(first[:200], [line[:200] for line in lines], n=1, cutoff=0.6)
    return [line[:200] for line in lines].index(near[0]) if near else None


def _key(line: str) -> str:
    return " ".join(line.translate(_TYPOGRAPHIC).translate(_INVISIBLE).casefold().split())


def _numbered(text: str, at: int, old: str) -> str:
    lines = text.split("\n")
    count = min(old.strip("\n").count("\n") + 1, MAX_SHOWN_LINES)
    shown = [
        f"{number}\t{line if len(line) <= 300 else line[:300] + '…'}"
        for number, line in enumerate(lines[at : at + count], start=at + 1)
    ]
    return "\n".join(shown)
