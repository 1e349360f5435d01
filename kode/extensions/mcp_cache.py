"""A folder of each MCP server's own for what its launcher downloads (`npx`, `uvx`, `bunx`), kept
for later sessions, and the approval of the one download.

A server starts without a network. If it has never started before and reached for the network, a
person is asked for one start with it; from then on what lies in the folder has to do. The folder
belongs to the entry's content: a changed entry begins with an empty one.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kode import durable, paths
from kode.errors import ServerError
from kode.extensions.mcp_config import Entry
from kode.extensions.trust import Item

DOWNLOAD_TIMEOUT_S = 600.0  # hundreds of MB, such as a browser
"""Time limit of the start with the network."""

_FOLDERS = {
    "npm_config_cache": "npm",
    "npm_config_store_dir": "pnpm",
    "YARN_CACHE_FOLDER": "yarn",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "BUN_TMPDIR": "bunx",
    "DENO_DIR": "deno",
    "UV_CACHE_DIR": "uv",
    "UV_TOOL_DIR": "uv-tools",
    "PIPX_HOME": "pipx",
    "PIP_CACHE_DIR": "pip",
}
"""Variable → folder in the cache. `XDG_CACHE_HOME`, which the sandbox sets, is the cache itself."""

_QUICK = {
    "npm_config_update_notifier": "false",
    "npm_config_fetch_retries": "0",
    "UV_HTTP_RETRIES": "0",
}
"""So that a launcher without a network ends at once, instead of trying for minutes."""
_OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""So that it takes what it has without asking whether there is something newer."""


class DownloadNeededError(ServerError):
    """A server that never started reached for the network, which it does not have."""


def wish(entry: Entry) -> Item:
    """What a person approves: one start of this command with the network."""
    values = entry.values
    held = {key: values[key] for key in ("command", "args", "read") if key in values}
    held["env"] = sorted(values.get("env", {}))
    content = [json.dumps(held, indent=2, ensure_ascii=False), *entry.files_of_command(), ""]
    return replace(entry.item, kind="mcp-download", content="\n".join(content))


def folder_of(entry: Entry, home: Path) -> Path:
    """Where it is; not made yet."""
    content = hashlib.sha256(wish(entry).content.encode("utf-8", "surrogatepass")).hexdigest()
    return paths.mcp_cache_folder(home, f"{_key(entry)}-{content[:16]}")


def writable(folder: Path) -> Path:
    """The part that the server may write to; made if missing. Raises: StorageError."""
    durable.make_folder(folder / "files")
    return folder / "files"


def is_filled(folder: Path) -> bool:
    """Whether its server has started before with what is in it."""
    return _mark(folder).exists()


def keep(entry: Entry, home: Path) -> None:
    """Notes that the server has started, and removes what earlier forms of its entry downloaded.
    Raises: StorageError."""
    folder = folder_of(entry, home)
    if not is_filled(folder):
        durable.replace(_mark(folder), b"")
        remove(entry, home, but=folder)


def remove(entry: Entry, home: Path, *, but: Path | None = None) -> None:
    """Removes the folders of a server, in all forms of its entry. Never raises."""
    for folder in paths.mcp_cache_folder(home, "x").parent.glob(f"{_key(entry)}-*"):
        if folder != but:
            shutil.rmtree(folder, ignore_errors=True)


def environment(folder: Path, *, network: bool) -> Mapping[str, str]:
    """The variables that lead launchers to a folder."""
    variables = {name: str(folder / "files" / below) for name, below in _FOLDERS.items()}
    offline = {} if network else {**_QUICK, **(_OFFLINE if is_filled(folder) else {})}
    return {**variables, **offline}


def _mark(folder: Path) -> Path:
    # Beside what the server may write to: if it could remove this, it would download again.
    return folder / "started"


def _key(entry: Entry) -> str:
    return hashlib.sha256(f"{entry.origin}\n{entry.name}".encode()).hexdigest()[:16]
