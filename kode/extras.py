"""Extras: parts of kode whose packages only those install who want them, as in `pyproject.toml`. A
part calls `require` before it imports such a package.
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
    try:
        return all(importlib.util.find_spec(module) for module in EXTRAS[extra][1])
    except ImportError:  # the parent is missing
        return False


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
        form = "uv tool install {}"
    elif (prefix / "pipx_metadata.json").exists():
        form = "pipx install --force {}"
    elif any((folder / "CACHEDIR.TAG").exists() for folder in prefix.parents):
        form = "uvx --from {} kode"
    else:
        return f"pip install 'kode[{extra}]'"
    # The environment is built again with every extra that it has, from where kode was installed: an
    # index may have another program of that name.
    extras = ",".join(name for name in EXTRAS if name == extra or is_installed(name))
    origin = importlib.metadata.distribution("kode").read_text("direct_url.json")
    return form.format(f"'kode[{extras}]" + (f" @ {json.loads(origin)['url']}'" if origin else "'"))
