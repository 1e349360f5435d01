"""A project's instruction files as extensions: they need no approval, except what a session wrote
that had read outside text."""

from dataclasses import replace
from pathlib import Path

from kode import paths
from kode.extensions import trust
from kode.extensions.trust import Approvals, Item
from kode.messages import first_of
from kode.paths import real_path
from kode.permissions.places import is_named_like_keys
from kode.prompts.agents_files import ProjectInstructions, Source, read_agents_files

MAX_NAMED = 5  # a note of one line


def read_instructions(home: Path, cwd: Path) -> ProjectInstructions:
    """The current instructions for agents in `cwd`, without those that wait for approval, which the
    warning names; see `prompts.agents_files`. Never raises."""
    project = paths.project_root(cwd)
    approvals = trust.load(home, project)
    project_instructions = _read(cwd, approvals)
    warnings = [project_instructions.warning, approvals.problem]
    if project_instructions.waiting:
        names = ", ".join(
            first_of([_name(source, project) for source in project_instructions.waiting], MAX_NAMED)
        )
        warnings.append(
            f"Left out of the instructions: {names}, written by a session that had read outside "
            "text. `kode extensions approve` shows and approves it."
        )
    return replace(project_instructions, warning=" ".join(filter(None, warnings)))


def items(home: Path, cwd: Path) -> tuple[Item, ...]:
    """Those that wait for approval. Never raises."""
    project = paths.project_root(cwd)
    approvals = trust.load(home, project)
    if approvals.marks is None or not approvals.marks.paths:
        return ()
    return tuple(_item(source, project) for source in _read(cwd, approvals).waiting)


def _read(cwd: Path, approvals: Approvals) -> ProjectInstructions:
    project = paths.project_root(cwd)
    return read_agents_files(
        cwd,
        paths.repository_root(cwd),
        is_secret=lambda path: is_named_like_keys(path, is_folder=False),
        waits=lambda source: trust.state(_item(source, project), approvals) != "trusted",
    )


def _item(source: Source, project: Path) -> Item:
    return Item(
        kind="instructions",
        name=_name(source, project),
        origin=Path(real_path(source.path)),
        scope="project",
        content=f"{source.text}\n",
        sha256=source.sha256,
    )


def _name(source: Source, project: Path) -> str:
    real = Path(real_path(source.path))
    return str(real.relative_to(project)) if project in real.parents else str(real)
