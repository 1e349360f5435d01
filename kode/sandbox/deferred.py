"""A sandbox whose code is imported when a command first needs it."""

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kode.tool import Attempt, Grants, Sandbox, SandboxKind

WHERE = "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin:/run/current-system/sw/bin:/run/wrappers/bin"
"""Where programs are searched: a project's folder on PATH must not supply them."""


def missing_protection() -> str:
    """What commands lack on a Linux without bubblewrap, and how to get it; "" elsewhere."""
    if sys.platform != "linux" or shutil.which("bwrap", path=WHERE):
        return ""
    return (
        "bubblewrap is not installed: no copy of the project takes what commands write, other "
        "processes are not hidden from them, and kode asks before each that writes. Install your "
        "system's package `bubblewrap`; `kode doctor` says what this machine has."
    )


class DeferredSandbox:
    """A `tool.Sandbox`."""

    def __init__(self, make: "Callable[[], Sandbox]") -> None:
        self._make = make
        self._made: Sandbox | None = None

    def cannot_hold(self) -> str:
        if sys.platform == "linux" and shutil.which("bwrap", path=WHERE):
            return ""
        return self._sandbox().cannot_hold()

    def holds(self) -> bool:
        return self._sandbox().holds()

    def why_missing(self) -> str:
        return self._sandbox().why_missing()

    def kind(self) -> "SandboxKind":
        return self._sandbox().kind()

    def begin(self, *, records_opens: bool = False, grants: "Grants | None" = None) -> "Attempt":
        return self._sandbox().begin(records_opens=records_opens, grants=grants)

    def show(self, paths: "Iterable[str]") -> None:
        if self._made is not None:
            self._made.show(paths)

    def private_tmp(self) -> "Path | None":
        if self._made is None and self.cannot_hold():
            return None
        return self._sandbox().private_tmp()

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    @property
    def carries(self) -> bool:
        return self._made is not None and self._made.carries

    def forget(self) -> None:
        if self._made is not None:
            self._made.forget()

    def _sandbox(self) -> "Sandbox":
        if self._made is None:
            self._made = self._make()
        return self._made
