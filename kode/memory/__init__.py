"""Memory: several systems behind one contract (`kode.contracts.MemorySystem`).

This module opens one; `kode.registry` lists them. Each is a folder; shared code is beside it:

    base · project · guarded      the base of every system, and the guard around it
    scan · frame                  what may not be remembered; how a model sees memory
    change · history · ledger     one change; all of them on disk; what they make true
    places · standing             where changes are made; the files and the history compared
    ask · transcript              the one way memory calls a model, and a session as text for it
    terms · embed · rank · when   a text as words and as a vector; ranking by a query
    index · cache · search        words and vectors in SQLite; a search by a model
    stored                        what is on disk, read back and locked
    exchange · commands           export, import; `kode memory ...`
"""

import pkgutil
from typing import TYPE_CHECKING

from kode import installed
from kode.errors import ConfigError
from kode.memory.base import NullMemory
from kode.memory.guarded import Guarded
from kode.registry import SYSTEMS

if TYPE_CHECKING:
    from kode.config import MemoryConfig
    from kode.contracts import MemorySystem

GRACE_S = 2.0


def open_memory(settings: "MemoryConfig") -> Guarded:
    """The configured system inside its guard, not yet opened; a null one if memory is off.

    Raises: ConfigError if `settings.system` is unknown.
    """
    return guard(make_system(settings) if settings.enabled else NullMemory(), settings)


def guard(system: "MemorySystem", settings: "MemoryConfig") -> Guarded:
    """Wraps a system in its guard, which handles one that hangs or fails: a system keeps its own
    deadlines and knows what is left then."""
    return Guarded(system, limits_s={"before_drop": settings.drop_deadline_s + GRACE_S})


def make_system(settings: "MemoryConfig") -> "MemorySystem":
    """The configured system without the guard, for commands that want its errors.

    Raises: ConfigError.
    """
    row = SYSTEMS.get(settings.system)
    added = {} if row else installed.added("memory")
    if row is None and settings.system not in added:
        raise ConfigError(
            f"There is no memory system {settings.system!r}. "
            f"Set memory.system to one of: {', '.join((*SYSTEMS, *added))}."
        )
    if row is None:
        system: MemorySystem = installed.call(*added[settings.system], settings)
    else:
        system = pkgutil.resolve_name(row.opens)(settings)
    return system
