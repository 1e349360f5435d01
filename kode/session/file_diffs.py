"""What a session has changed in files, as diffs against their first content. `change_log` has the
changes, `content_store` the contents."""

import contextlib
import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.results import relative_path
from kode.session.change_log import Change, History
from kode.session.content_store import LINK, Contents, is_digest

MAX_COMPARED_LINES = 20_000
"""Lines of a file; a longer one is only named as changed."""


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """What a session has changed in one file, against its first content."""

    path: str
    text: str
    """A unified diff, or a line that says why there is none."""
    added: int
    removed: int
    by_others: bool
    """Whether a person or a program changed it too."""


def file_diffs(contents: Contents, past: History, seen_from: Path) -> list[FileDiff]:
    """One diff per changed file, except undone changes; files inside `seen_from` get relative
    names."""
    per_file: dict[str, list[Change]] = {}
    for number in past.standing:
        for path, done in past.groups[number].files.items():
            per_file.setdefault(path, []).extend(done)
    found = (_diff_of(contents, path, done, seen_from) for path, done in per_file.items())
    return [diff for diff in found if diff is not None]


def _diff_of(
    contents: Contents, path: str, done: Sequence[Change], seen_from: Path
) -> FileDiff | None:
    """None for a file that is unchanged."""
    before, now = done[0].before, contents.see(Path(path)).state
    if before == now:
        return None
    name = relative_path(path, seen_from)
    gaps = any(
        change.done and change.after != two.before for change, two in itertools.pairwise(done)
    )
    old, new = _lines(contents, before, None), _lines(contents, now, path)
    lines: list[str] = []
    if old is not None and new is not None:
        fromfile = "/dev/null" if before is None else name
        tofile = "/dev/null" if now is None else name
        lines = list(difflib.unified_diff(old, new, fromfile=fromfile, tofile=tofile))
    text = "".join(line if line.endswith("\n") else line + "\n" for line in lines)
    return FileDiff(
        path=name,
        text=text or f"{name}: changed; too large, or no text, to compare\n",
        added=sum(line.startswith("+") for line in lines[2:]),
        removed=sum(line.startswith("-") for line in lines[2:]),
        by_others=gaps or (done[-1].done and done[-1].after != now),
    )


def _lines(contents: Contents, state: str | None, path: str | None) -> list[str] | None:
    """The lines of a state, or of the file itself if `path` is given; None if it is not text or too
    long."""
    if state is None:
        return []
    if state.startswith(LINK):
        return [state + "\n"]
    data: bytes | None = None
    if is_digest(state):
        with contextlib.suppress(OSError):
            data = Path(path).read_bytes() if path else contents.data(state)
    if data is None or b"\0" in data[:8192] or data.count(b"\n") > MAX_COMPARED_LINES:
        return None
    return data.decode("utf-8", "replace").splitlines(keepends=True)
