"""Imports what a first turn needs, while the person still types it: `import_first_turn`.

A test lists what is imported between Enter and the request: nothing may be.
"""

import contextlib
import importlib

from kode import installed
from kode.conversation.open_session import OpenSession
from kode.memory.scan import scan
from kode.memory.words import stem
from kode.providers import warm_up

MODULES = (
    "httpcore2",
    "anyio._backends._asyncio",
    "kode.providers.written_calls",
    "apsw",
    "encodings.utf_8_sig",
    "kode.conversation.hooking",
    "kode.extensions.skill_tool",
    "kode.subagents.tool",
    "kode.sandbox.sandbox",
    "kode.sandbox.probe",
    "kode.sandbox.seatbelt",
    "kode.sandbox.view",
    "kode.tools.checkers",
)
"""Imported only where a turn needs them, or by a library only when it connects."""


def import_first_turn(opened: OpenSession) -> None:
    """Imports what is needed up to the first request of a session; call it in a thread. A fault is
    left to whoever needs the module, and can say so."""
    with contextlib.suppress(Exception):
        warm_up(opened.agent.provider)
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    stem(["memory"])  # these two read tables when first used
    scan("memory")
    for plugin in installed.plugins():
        used: tuple[installed.Code, ...] = (
            plugin.before_call,
            plugin.around_turn,
            plugin.sections,
            plugin.tools,
            plugin.subscriber,
        )
        for where in used:
            with contextlib.suppress(Exception):
                installed.load(plugin, where)
