"""A sandbox for programs that others bring and that run beside the session: their changes are
applied at once or impossible, and never reviewed.

For commands of the model, which are tried on a copy of the project, see `attempt`.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kode.errors import SandboxError
from kode.paths import real_path
from kode.sandbox.sandbox import kinds, open_sandbox, said_of
from kode.sandbox.values import WrapCommand, Wrapped
from kode.sandbox.view import Ground, is_hidden
from kode.workplace import Workplace


class HiddenError(SandboxError):
    """A program exists, and commands in the sandbox cannot see it, at `paths`."""

    def __init__(self, program: str, paths: Sequence[str]) -> None:
        super().__init__(f"{program} cannot be started: the sandbox hides {' and '.join(paths)}")
        self.paths = paths


class MissingError(SandboxError):
    """There is no such program."""


def confine(
    place: Workplace,
    *,
    writable: bool = False,
    network: bool = False,
    records_opens: bool = False,
    denied: Callable[[str], bool] = lambda path: False,
    shown: Iterable[Path] = (),
    cache: Path | None = None,
) -> WrapCommand:
    """Returns a wrapper for programs in a sandbox with a read-only project unless `writable`, and
    with the home and kode's own folder hidden. Probes the machine first (about 0.1 s).
    `records_opens`: see `Sandbox.begin`; `shown`, `cache`: see `view.Ground`. The wrapper
    raises HiddenError and MissingError.

    Raises: SandboxError if this machine has none, SandboxUnknownError if that is not known.
    """
    sandbox = open_sandbox(
        place, network=network, writable=writable, denied=denied, shown=shown, cache=cache
    )
    faults = {}
    for kind in kinds():
        faults[kind] = sandbox.fault(kind)
        if not faults[kind]:
            break
    else:
        raise SandboxError(f"there is no sandbox here ({said_of(faults)})")

    def wrap(argv: tuple[str, ...]) -> Wrapped:
        # The launcher does not search for programs; it becomes the one that is named.
        found = shutil.which(argv[0], path=place.environment.get("PATH"))
        program = found or str(place.cwd / argv[0])
        if found is None and ("/" not in argv[0] or not os.path.exists(program)):
            raise MissingError(f"there is no program {argv[0]}: install it, or correct the name")
        if hidden := hidden_of(sandbox.ground, program):
            raise HiddenError(argv[0], hidden)
        attempt = sandbox.attempt(kind, layered=False, records_opens=records_opens)
        return attempt.wrap((program, *argv[1:]))

    return wrap


def hidden_words(place: Workplace, words: Iterable[str], shown: Iterable[Path]) -> list[str]:
    """Which words of a command name something that it would not find in the sandbox."""
    ground = open_sandbox(place, network=False, shown=shown).ground
    return [path for word in words if "/" in word for path in hidden_of(ground, word)]


def hidden_of(ground: Ground, path: str) -> list[str]:
    """What a program would not find of an existing path in the sandbox: the path, and where its
    links lead."""
    ways = dict.fromkeys((os.path.abspath(path), real_path(path)))
    there = ways if os.path.exists(path) else ()
    return [way for way in there if is_hidden(ground, Path(way), by_temporary=True)]
