"""AGENTS.md: what a project tells agents about itself. Read, bounded, and made into one section.

It is not memory and kode never writes it.
"""

from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 32 * 1024
"""For all files of one prompt together; the nearest file is served first."""

NAME = "AGENTS.md"


@dataclass(frozen=True, kw_only=True)
class ProjectInstructions:
    section: str
    """The section for the system prompt; "" when there is no file."""
    files: tuple[str, ...] = ()
    warning: str = ""
    """What was cut or could not be read, in one sentence; "" when all went well."""


def read_agents_files(cwd: Path, repository: Path | None) -> ProjectInstructions:
    """Reads AGENTS.md from `cwd` up to the repository root, nearest first, 32 KB in all.

    Outside a repository only the working directory's own file counts. Never raises: a file that
    cannot be read is reported in `warning`.
    """
    folders = [cwd]
    if repository is not None and (cwd == repository or repository in cwd.parents):
        folders = [f for f in (cwd, *cwd.parents) if f == repository or repository in f.parents]
    texts: list[str] = []
    names: list[str] = []
    warnings: list[str] = []
    room = MAX_BYTES
    for folder in folders:
        path = folder / NAME
        try:
            if not path.exists():
                continue
            why = _unfit(path, folders[-1])
            if why:
                warnings.append(f"{path} was left out: {why}.")
                continue
            with path.open("rb") as file:
                data = file.read(room + 1)
        except OSError as error:
            warnings.append(f"{path} could not be read ({error.strerror}).")
            continue
        if b"\0" in data:
            warnings.append(f"{path} was left out: it is not text.")
            continue
        if room == 0:
            warnings.append(f"{path} was left out: {NAME} files may hold 32 KB together.")
            continue
        if len(data) > room:
            warnings.append(f"{path} was cut: {NAME} files may hold 32 KB together.")
            data = data[:room]
        text = data.decode("utf-8", errors="ignore" if len(data) == room else "replace").strip()
        room -= len(data)
        if text:
            names.append(str(path))
            texts.append(f"## {path}\n{text}")
    section = ""
    if texts:
        section = (
            "# Instructions of this project\n"
            f"From its {NAME} files, the nearest first; where they differ, the nearest counts.\n\n"
            + "\n\n".join(texts)
        )
    return ProjectInstructions(section=section, files=tuple(names), warning=" ".join(warnings))


def _unfit(path: Path, top: Path) -> str:
    """Why a file is not read. A link that leaves the project could name any file of the reader's:
    a repository must not choose what of that goes to a model."""
    if not path.is_file():
        return "it is not a file"
    real = path.resolve()
    if real != path and top.resolve() not in real.parents:
        return "it is a link to a place outside the project"
    return ""
