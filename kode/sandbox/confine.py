"""A sandbox for programs that others bring and that run beside the session: their changes are
applied at once or impossible, and never reviewed.

For commands of the model, which are tried on a copy of the project, see `attempt`.
"""

import shutil
from collections.abc import Callable

from kode.contracts import WrapCommand, Wrapped
from kode.errors import SandboxError
from kode.sandbox.sandbox import kinds, open_sandbox, said_of
from kode.workplace import Workplace


def confine(
    place: Workplace,
    *,
    writable: bool = False,
    network: bool = False,
    records_opens: bool = False,
    denied: Callable[[str], bool] = lambda path: False,
) -> WrapCommand:
    """Returns a wrapper for programs in a sandbox with a read-only project unless `writable`, and
    with the home and kode's own folder hidden. Probes the machine first (about 0.1 s).
    `records_opens`: see `contracts.Sandbox`.

    Raises: SandboxError if this machine has none.
    """
    sandbox = open_sandbox(place, network=network, writable=writable, denied=denied)
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
        program = found or (str(place.cwd / argv[0]) if "/" in argv[0] else argv[0])
        attempt = sandbox.attempt(kind, layered=False, records_opens=records_opens)
        return attempt.wrap((program, *argv[1:]))

    return wrap
