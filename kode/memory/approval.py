"""Which of the things that wait for a person's approval is meant. What waits, and what an approval
does to it, is known to the system it is in.
"""

from collections.abc import Iterable

from kode.errors import MemoryError_


def only_waiting(kind: str, waiting: Iterable[str], id: str) -> str:
    """The one id that is `id` or begins so, among those that wait for approval; `kind` is what
    they are of, in one word. Raises: MemoryError_ when none does, or several."""
    ids = list(waiting)
    found = [id] if id in ids else [known for known in ids if known.startswith(id)]
    if len(found) == 1:
        return found[0]
    what = f"Several {kind}s begin" if found else f"No {kind} that waits for approval begins"
    raise MemoryError_(f"{what} with {id!r}. `kode memory approve` without an id lists them.")
