"""A sandbox whose code is imported when a command first needs it."""

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kode.sandbox.sandbox import Sandbox

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
    """A `Sandbox` that nothing is imported for before a command needs it; see `defer`."""

    def __init__(self, make: "Callable[[], Sandbox]") -> None:
        self._make = make
        self._made: Sandbox | None = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)

    def cannot_hold(self) -> str:
        if sys.platform == "linux" and shutil.which("bwrap", path=WHERE):
            return ""
        return str(self.__getattr__("cannot_hold")())

    def private_tmp(self) -> "Path | None":
        if self._made is None and self.cannot_hold():
            return None
        path: Path | None = self.__getattr__("private_tmp")()
        return path

    def show(self, paths: "Iterable[str]") -> None:
        if self._made is not None:
            self._made.show(paths)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def forget(self) -> None:
        if self._made is not None:
            self._made.forget()


def defer(make: "Callable[[], Sandbox]") -> "Sandbox":
    """A sandbox that `make` makes when a command first needs it."""
    return cast("Sandbox", DeferredSandbox(make))
