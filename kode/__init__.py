"""kode: a terminal coding agent. Start reading in `kode/engine/turn.py`; the layout is explained in
`docs/architecture.md`.

The API for programs that embed kode is `__all__`, explained in docs/python.md. Each name is loaded
from `kode.api` on first use; this module imports nothing, so that `kode --version` is instant.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kode import errors as errors, events as events
    from kode.api import *  # noqa: F403

__all__ = [  # noqa: PLE0604
    *"Answer BlockingConversation Conversation Gate Injection KodeError MemorySystem".split(),
    *"NullMemory Question ToolError ToolOutput Turn TurnFailed errors events open".split(),
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'kode' has no attribute {name!r}")
    from importlib import import_module

    if name in ("errors", "events"):
        return import_module(f"kode.{name}")
    return getattr(import_module("kode.api"), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
