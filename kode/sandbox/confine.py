"""A sandbox for programs that others bring and that run beside the session: their changes are
applied at once or impossible, and never reviewed.

For commands of the model, which are tried on a copy of the project, see `attempt`.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kode.errors import SandboxError
from kode.paths import real_path
from kode.sandbox.attempt import Attempt
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.values import WrapCommand
from kode.sandbox.view import is_hidden
from kode.workplace import Workplace


class HiddenError(SandboxError):
    """A program exists, and commands in the sandbox cannot see it, at `paths`."""

    def __init__(self, program: str, paths: Sequence[str]) -> None:
        super().__init__(f"{program} cannot be started: the sandbox hides {' and '.join(paths)}")
        self.paths = paths


class MissingError(SandboxError):
    """There is no such program."""


def confine(place: Workplace, *, records_opens: bool = False, **terms: Any) -> WrapCommand:
    """Returns a wrapper for programs in a sandbox without a copy of the project; `terms` are fields
    of the `Sandbox`. Tries the machine first (about 0.1 s). `records_opens`: see `Sandbox.begin`.
    The wrapper raises HiddenError and MissingError.

    Raises: SandboxError if this machine has none, SandboxUnknownError if that is not known.
    """
    sandbox = Sandbox(place=place, has_layers=False, **terms)
    if not sandbox.is_available():
        raise SandboxError(f"there is no sandbox here ({sandbox.why_missing().rstrip('.')})")

    def wrap(argv: tuple[str, ...]) -> Attempt:
        # The launcher does not search for programs; it becomes the one that is named.
        path = shutil.which(argv[0], path=place.environment.get("PATH"))
        program = path or str(place.cwd / argv[0])
        if path is None and ("/" not in argv[0] or not os.path.exists(program)):
            raise MissingError(f"there is no program {argv[0]}: install it, or correct the name")
        if hidden := _find_hidden(sandbox, program):
            raise HiddenError(argv[0], hidden)
        return sandbox.begin(records_opens=records_opens).wrap((program, *argv[1:]))

    return wrap


def hidden_words(place: Workplace, words: Iterable[str], shown: Iterable[Path]) -> list[str]:
    """Which words of a command name something that it would not find in the sandbox."""
    sandbox = Sandbox(place=place, shown=shown)
    return [path for word in words if "/" in word for path in _find_hidden(sandbox, word)]


def _find_hidden(sandbox: Sandbox, path: str) -> list[str]:
    """What a program would not find of an existing path in the sandbox: the path, and where its
    links lead."""
    ways = dict.fromkeys((os.path.abspath(path), real_path(path)))
    there = ways if os.path.exists(path) else ()
    return [way for way in there if is_hidden(sandbox.ground, Path(way), by_temporary=True)]
