"""Where a session works: one value, made once, for the agent, its tools, the gate and the sandbox.

How one is made from the settings is `assembly.open_workplace`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Workplace:
    cwd: Path
    project: Path
    """The root of the repository; of none, the working directory. Rules are relative to it."""
    roots: tuple[Path, ...]
    """Where file tools may work without being outside: the working directory first."""
    home: Path
    """`$KODE_HOME`."""
    protected: tuple[Path, ...]
    """The folders that belong to kode, `home` first: no tool writes there, a sandbox hides them."""
    readable: tuple[Path, ...] = ()
    """Files in protected folders that may be read unasked; the name of one may be a pattern."""
    outputs: Path
    """Where a tool puts the whole of an output that had to be cut. Created by the tool, 0700."""
    plan: Path | None = None
    """The plan of the session; None: it keeps none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment for child processes, without secrets."""
    user_home: Path
    temp: tuple[Path, ...] = ()
    """Folders for temporary files, beside `/tmp`."""


NOWHERE = Workplace(
    cwd=Path("/"),
    project=Path("/"),
    roots=(),
    home=Path("/nonexistent"),
    protected=(),
    outputs=Path("/nonexistent"),
    user_home=Path("/nonexistent"),
)
"""For calls of tools that touch no file."""
