"""A sandbox for a program that others bring and that lives beside the session: what it changes is
real or not at all, and nothing of it is looked at afterwards.

For commands of the model, which are tried on a copy of the project, see `attempt`.
"""

import shutil
from collections.abc import Callable

from kode.contracts import WrapCommand, Wrapped
from kode.errors import SandboxError
from kode.sandbox.sandbox import open_sandbox
from kode.workplace import Workplace


def confine(
    place: Workplace,
    *,
    writable: bool = False,
    network: bool = False,
    denied: Callable[[str], bool] = lambda path: False,
) -> WrapCommand:
    """What puts programs into a sandbox in which the project is read-only unless `writable`, with
    the home and kode's own folder hidden. Finds out what holds by trying it (about 0.1 s).

    Raises: SandboxError where this machine has none.
    """
    sandbox = open_sandbox(place, network=network, writable=writable, denied=denied)
    faults = {}
    for kind in ("bubblewrap", "landlock"):
        faults[kind] = sandbox.fault(kind)
        if not faults[kind]:
            break
    else:
        said = "; ".join(f"{kind}: {fault}" for kind, fault in faults.items())
        raise SandboxError(f"there is no sandbox here ({said})")

    def wrap(argv: tuple[str, ...]) -> Wrapped:
        # The launcher does not look for programs; it becomes the one that is named.
        found = shutil.which(argv[0], path=place.environment.get("PATH"))
        program = found or str(place.cwd / argv[0])
        return sandbox.attempt(kind, layered=False).wrap((program, *argv[1:]))

    return wrap
