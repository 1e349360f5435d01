"""What the tests of the vault have in common: an open one, its tools, its files."""

from pathlib import Path
from typing import Any

from kode.config import MemoryConfig
from kode.events import silent
from kode.memory.vault.files import SHARED
from kode.memory.vault.system import Vault
from kode.paths import project_memory
from tests.memory.life import memory_context, use_tool


async def opened(root: Path, *, state: Any = None, vault: Any = None, **changes: Any) -> Vault:
    """A vault with its files below `root`; `vault` is its part of the settings."""
    system = Vault(MemoryConfig(system="vault", vault=vault or {}))
    await system.open(memory_context(root, **changes), state or {})
    return system


async def use(system: Vault, name: str, emit: Any = silent, **arguments: Any) -> str:
    """A call of one of the tools as the loop makes it. Raises: ToolError."""
    (tool,) = [tool for tool in system.tools() if tool.name == name]
    return await use_tool(tool, emit, **arguments)


def file(root: Path, name: str) -> Path:
    """Where a file of the project `root` lies."""
    vault = root / "memory" / "vault"
    return vault / name if name in SHARED else project_memory(vault, root) / name


def put(root: Path, name: str, text: str) -> Path:
    """A file as a person writes it."""
    path = file(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
