"""The memory systems that are built on the new core."""

from importlib.util import find_spec

from kode.registry import SYSTEMS

BUILT = [name for name in SYSTEMS if find_spec(f"kode.memory.{name}")]
