"""What kode remembers: several systems behind one contract (`kode.contracts.MemorySystem`).

Here: how one is made; `kode.registry` lists them. Each is a folder; what they share
is beside it:

    scan                             what may not be remembered (scan_phrases.txt: orders, markers)
    frame                            how memory is shown to a model
    history · approval               every change with its undo; what waits for a person
    ask · transcript                 the one way memory calls a model, and a session as text for it
    terms · embed · vector_cache     a text as words, and as a vector
    rank · when · index · search     from a query to an order, in memory or in SQLite, or by a model
    cache                            an SQLite file that may be thrown away
    stored · locks                   what is on disk, read back and locked; work that waits there
    tool_errors                      how the model hears of what could not be done
    exchange · transfer              export, import, copy
    commands                         `kode memory ...`
    base · background                what every system that keeps something shares
    project · take_over              systems with a folder for each project
    guarded · null · snapshot        around a system, and in place of one
"""

import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from kode.errors import ConfigError
from kode.memory.base import NullMemory
from kode.memory.guarded import Guarded
from kode.registry import SYSTEMS

if TYPE_CHECKING:
    from kode.config import MemoryConfig
    from kode.contracts import MemorySystem

GRACE_S = 2.0


def open_memory(settings: "MemoryConfig") -> Guarded:
    """The configured system inside its guard, not yet opened; a null one when memory is off.

    Raises: ConfigError when `settings.system` names none.
    """
    if not settings.enabled:
        return Guarded(NullMemory())
    # A system keeps its own deadline and knows what is left then; the guard is for one that hangs.
    return Guarded(
        make_system(settings), limits_s={"before_drop": settings.drop_deadline_s + GRACE_S}
    )


def make_system(settings: "MemoryConfig") -> "MemorySystem":
    """The configured system without the guard, for commands that want its errors.

    Raises: ConfigError.
    """
    where = SYSTEMS.get(settings.system)
    if where is None:
        raise ConfigError(
            f"There is no memory system {settings.system!r}. "
            f"Set memory.system to one of: {', '.join(SYSTEMS)}."
        )
    system: Callable[[MemoryConfig], MemorySystem] = pkgutil.resolve_name(where)
    return system(settings)
