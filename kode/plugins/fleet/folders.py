"""Where fleets keep their files: the queues, and the worktrees of their tasks."""

from pathlib import Path


def fleet_folder(home: Path) -> Path:
    """The folder with a queue per fleet, and the key that signs them."""
    return home / "fleet"


def trees_folder(home: Path) -> Path:
    """The folder of the worktrees. It is beside `home` because no tool may write inside it."""
    return home.with_name(f"{home.name}-fleet")
