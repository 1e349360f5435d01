"""What a goal's turns have changed in files, from the copies that undo keeps."""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.plugin import FileChanges, Opened, credentials
from kode.plugins.goals.guard import side_folder

MAX_COMPARED_LINES = 20_000


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A file that is not as it was."""

    path: str
    """Relative to the project, if it is in there."""
    before: Sequence[str]
    after: Sequence[str]

    def diff(self, context: int) -> Iterator[str]:
        """The lines of a unified diff; none of a file that is too long to be compared."""
        if len(self.before) + len(self.after) > MAX_COMPARED_LINES:
            return iter(())
        names = f"a/{self.path}", f"b/{self.path}"
        return difflib.unified_diff(self.before, self.after, *names, n=context, lineterm="")


def changed_since(opened: Opened, first: int, more: Iterable[str] = ()) -> list[Changed]:
    """The files that the turns from this one on have changed; `more` are paths to look at, too."""
    folder = side_folder(opened)
    past = FileChanges() if folder is None else FileChanges.of_session(folder)
    turns: dict[str, int] = {}
    for group in past.groups:
        for path in group.files if group.turn >= first else ():
            turns.setdefault(path, group.turn)
    found = []
    for path in dict.fromkeys((*turns, *more)):
        before, after = past.before(turns.get(path, first), path).splitlines(), _lines(path)
        if before != after:
            root = opened.place.project
            found.append(Changed(path=_name(root, path), before=before, after=after))
    return found


def counted(one: Changed) -> dict[str, str | int]:
    """The file with how many lines came and went."""
    lines = list(one.diff(0))[2:]
    return {
        "path": one.path,
        "added": sum(line.startswith("+") for line in lines),
        "removed": sum(line.startswith("-") for line in lines),
    }


def _name(root: Path, path: str) -> str:
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


def _lines(path: str) -> list[str]:
    try:
        return _text(Path(path).read_bytes())
    except OSError:
        return []


def _text(data: bytes) -> list[str]:
    """Lines with credentials masked, as they are in what `FileChanges` gives."""
    return credentials.redact(data.decode("utf-8", "replace")).splitlines()
