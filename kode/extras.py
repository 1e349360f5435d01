"""Extras: parts of kode whose packages only those install who want them.

Each has its name in `pyproject.toml` too. A part calls `require` before it imports such a package,
so that the error for a missing one is the same everywhere.
"""

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from kode.errors import ConfigError, KodeError

EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "acp": ("Working in an editor (ACP)", ("acp",)),
    "bedrock": ("Amazon Bedrock without AWS_BEARER_TOKEN_BEDROCK", ("boto3",)),
    "documents": ("Reading a PDF", ("pypdfium2", "PIL")),
    "mcp": ("MCP", ("mcp", "mcp_types")),
    "pictures": ("Making a large picture smaller", ("PIL",)),
    "ray": ("Running a fleet on Ray", ("ray",)),
    "team": ("Sharing notes with a team", ("psycopg",)),
    "vertex": ("Vertex AI without an access token", ("google.auth",)),
    "view": ("Showing sessions as pages", ("starlette", "uvicorn", "jinja2")),
    "web": ("Reading a web page", ("selectolax",)),
}
"""Name → what needs it, and the modules it brings."""


def is_installed(extra: str) -> bool:
    """Whether all modules of an extra can be imported. Imports at most the parent of one."""
    return all(map(_is_importable, EXTRAS[extra][1]))


def require(extra: str, error: type[KodeError] = ConfigError) -> None:
    """Raises: `error`, with the command that installs the extra, unless it is installed."""
    if not is_installed(extra):
        raise error(
            f"{EXTRAS[extra][0]} needs kode's extra `{extra}`, which is not installed: "
            f"{install_command(extra)}"
        )


def install_command(extra: str) -> str:
    """The command line that adds an extra to this installation."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return f"uv tool install {_with_those_there(extra)}"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx install --force {_with_those_there(extra)}"
    if any((folder / "CACHEDIR.TAG").exists() for folder in prefix.parents):
        return f"uvx --from {_with_those_there(extra)} kode"
    return f"pip install 'kode[{extra}]'"


def _with_those_there(extra: str) -> str:
    """The requirement for rebuilding the environment: every extra it has, from where kode was
    installed: an index may have another program of that name."""
    extras = ",".join(name for name in EXTRAS if name == extra or is_installed(name))
    origin = importlib.metadata.distribution("kode").read_text("direct_url.json")
    return f"'kode[{extras}]" + (f" @ {json.loads(origin)['url']}'" if origin else "'")


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # the parent is missing
        return False
