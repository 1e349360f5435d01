"""What `kode doctor` finds, and what several of its checks look at.

The checks are `machine_checks` and `setup_checks`.
"""

import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode import paths
from kode.errors import KodeError

if TYPE_CHECKING:
    from kode.cli.commands.reach import Reached
    from kode.config import Loaded, ProviderChoice

NOT_TRIED = "not tried: the configuration has a fault"
"""Of what cannot be looked at without one."""

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    what: str
    state: State
    """`missing` is needed and makes the exit code 1; `optional` works without."""
    detail: str
    next_step: str = ""


@dataclass(frozen=True)
class Case:
    """What several checks look at, each found out once."""

    cwd: Path

    @functools.cached_property
    def loaded(self) -> "Loaded | None":
        """None where the configuration has a fault, which is a finding of its own."""
        from kode.config import load_config

        try:
            return load_config(paths.home(), self.cwd, environ=os.environ, flags={})
        except KodeError:
            return None

    @functools.cached_property
    def choice(self) -> "ProviderChoice | None":
        from kode.config import resolve_provider

        if self.loaded is None:
            return None
        try:
            return resolve_provider(self.loaded.config, os.environ)
        except KodeError:
            return None

    @functools.cached_property
    def reached(self) -> "Reached | None":
        """None where there is no server to ask."""
        from kode.cli.commands.reach import reach

        return None if self.choice is None or self.choice.name == "scripted" else reach(self.choice)


def can_write(folder: Path) -> bool:
    """Tried, since the rights alone say nothing of read-only disks and of what root may do."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
