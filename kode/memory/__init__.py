"""Memory between sessions: one log of statements, and files that are rendered from it.

This module opens one of several systems behind one contract (`kode.contracts.MemorySystem`). Each
is a package with a policy and a layout (`policy`), over one core (`system`).
"""

import pkgutil
from typing import TYPE_CHECKING

from kode import installed
from kode.errors import ConfigError
from kode.memory.guarded import Guarded
from kode.memory.system import Memory, NullMemory
from kode.registry import SYSTEMS

if TYPE_CHECKING:
    from kode.config import MemoryConfig
    from kode.contracts import MemorySystem

GRACE_S = 2.0  # for what a system does after its own deadline


def open_memory(settings: "MemoryConfig") -> Guarded:
    """The configured system inside its guard, not yet opened. Raises: ConfigError."""
    return guard(make_system(settings), settings)


def guard(system: "MemorySystem", settings: "MemoryConfig") -> Guarded:
    """Wraps a system in its guard, which handles one that hangs or fails: a system keeps its own
    deadlines and knows what is left then."""
    return Guarded(system, before_drop=settings.drop_deadline_s + GRACE_S)


def make_system(settings: "MemoryConfig") -> "MemorySystem":
    """The configured system without the guard, for commands that want its errors; a null one if
    memory is off. Raises: ConfigError if `settings.system` is unknown."""
    name = settings.system
    if not settings.enabled:
        return NullMemory()
    if name in SYSTEMS:
        policy = pkgutil.resolve_name(SYSTEMS[name].opens)
        return Memory(name, settings, policy(settings))
    added = installed.added("memory")
    if name not in added:
        raise ConfigError(
            f"There is no memory system {name!r}. "
            f"Set memory.system to one of: {', '.join((*SYSTEMS, *added))}."
        )
    system: MemorySystem = installed.load(*added[name])(settings)
    return system
