"""Where a session works: one value for the agent, its tools, the gate and the sandbox.

`assembly.open_workplace` builds it from the settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Workplace:
    cwd: Path
    project: Path
    """The repository root; outside a repository, the working directory. Rules are relative to it.
    """
    roots: tuple[Path, ...]
    """Folders that file tools may work in, the working directory first."""
    home: Path
    """`$KODE_HOME`."""
    protected: tuple[Path, ...]
    """kode's own folders, `home` first: no tool writes there, a sandbox hides them."""
    readable: tuple[Path, ...] = ()
    """Files in protected folders that may be read without asking; names may be patterns."""
    outputs: Path
    """Where a tool saves the full text of a truncated output. Created by the tool, 0700."""
    plan: Path | None = None
    """The session's plan file; None: it has none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment for child processes, without secrets."""
    user_home: Path
    temp: tuple[Path, ...] = ()
    """Folders for temporary files besides `/tmp`."""


NOWHERE = Workplace(
    cwd=Path("/"),
    project=Path("/"),
    roots=(),
    home=Path("/nonexistent"),
    protected=(),
    outputs=Path("/nonexistent"),
    user_home=Path("/nonexistent"),
)
"""For tool calls that touch no file."""
