"""Approving many at once: all that waits, or what came from one agent or import."""

from collections.abc import Awaitable, Callable, Sequence

from kode.errors import MemoryRefused
from kode.memory.base import Waiting

LISTED_FAULTS = 3


async def approve_all(
    found: Sequence[Waiting],
    approve: Callable[[str], Awaitable[str]],
    *,
    confirm: Callable[[str], bool] | None,
    is_sure: bool,
) -> str:
    """Shows what waits and approves it once the person says so, or right away with `is_sure`. What
    cannot be kept waits on, and is named. Raises: StorageError, BusyError."""
    if not found:
        return "Nothing of this waits for approval."
    listed = "\n".join(f"{one.id}  {one.line}" for one in found)
    if not is_sure and (confirm is None or not confirm(f"{listed}\nKeep these {len(found)}?")):
        rest = "" if confirm else " `--yes` approves all of it."
        return f"{'' if confirm else listed + chr(10)}Nothing was approved.{rest}"
    faults: list[str] = []
    for one in found:
        try:
            await approve(one.id)
        except MemoryRefused as error:
            faults.append(f"{one.id}  {error}")
    lines = [f"approved {len(found) - len(faults)} of {len(found)}"]
    if faults:
        lines.append(f"{len(faults)} wait on:")
        lines += (f"  {fault}" for fault in faults[:LISTED_FAULTS])
        if len(faults) > LISTED_FAULTS:
            lines.append(f"  ... and {len(faults) - LISTED_FAULTS} more")
    return "\n".join(lines)
