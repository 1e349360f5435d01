"""Where a team's notes are: the server, the team, this machine; and what a project is called there,
where its path says nothing.
"""

import configparser
import hashlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kode.plugin import ConfigError, keep_secret, path_hash

_SCP = re.compile(r"(?:[^@/:]+@)?([^/:]+):(?!//)(.+)")
"""`git@host:path`, which is no URL."""


PROJECT_SCOPE = "project:"
"""A scope that begins so belongs to one project."""


@dataclass(frozen=True)
class Address:
    url: str
    """As libpq reads it. It may hold a password: `label` is for showing."""
    team: str
    host: str
    """What colleagues see of where a change was made."""

    @property
    def _parts(self) -> tuple[str, str, str, str]:
        """Person, server, port and database, as far as the address names them."""
        parts = urlsplit(self.url)
        given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        place = parts.netloc.rpartition("@")[2]
        person = unquote(parts.username or "") or given.get("user", "")
        database = unquote(parts.path.strip("/")) or given.get("dbname", "")
        return person, place or given.get("host", ""), given.get("port", ""), database

    @property
    def label(self) -> str:
        """`platform on db.example:5432/kode`, without a password."""
        _, place, _, database = self._parts
        return f"{self.team} on {place or 'this machine'}/{database}"

    @property
    def key(self) -> str:
        """The name of the folder of the copy: another for each server, person and team, since what
        one may see is not what another may."""
        named = "\0".join((*self._parts, self.team))
        return hashlib.sha256(named.encode()).hexdigest()[:16]


def address_of(settings: Any) -> Address | None:
    """The team that a config's `memory.notes` names; None where notes are a person's own. Raises:
    ConfigError."""
    if settings.url is None:
        return None
    try:
        parts = urlsplit(settings.url)
        keep_secret(unquote(parts.password or ""))
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:  # whose text may quote a password
        raise ConfigError(
            "memory.notes.url cannot be read. Write it as postgresql://PERSON@HOST/DATABASE, with "
            "special characters of a password percent-encoded (/ as %2F, @ as %40)."
        ) from None
    host = settings.host or socket.gethostname().split(".")[0] or "unnamed"
    return Address(settings.url, settings.team, host)


def project_name(root: Path) -> str:
    """What a project is called on every machine: its repository's address, as
    `github.com/org/repo`; without one the hash of its path, which means nothing elsewhere."""
    url = origin_of(root)
    scp = _SCP.fullmatch(url)
    if scp:
        host, path = scp[1], scp[2]
    else:
        parts = urlsplit(url)
        host, path = parts.hostname or "", parts.path
    path = path.strip("/").removesuffix(".git")
    return f"{host.lower()}/{path}" if host and path else path_hash(root)


def origin_of(root: Path) -> str:
    """The address of `origin` in a repository's own settings; "" where there is none."""
    folder = root / ".git"
    try:
        if folder.is_file():  # of a worktree
            named = folder.read_text().removeprefix("gitdir:").strip()
            folder = root / named
            common = folder / "commondir"
            folder = folder / common.read_text().strip() if common.exists() else folder
        settings = configparser.RawConfigParser(strict=False, allow_no_value=True)
        settings.read_string((folder / "config").read_text())
    except (OSError, ValueError, configparser.Error):
        return ""
    return settings.get('remote "origin"', "url", fallback="").strip()


def team_of(settings: Any) -> Address:
    """As `address_of`. Raises: ConfigError where none is configured, too."""
    address = address_of(settings)
    if address is None:
        raise ConfigError(
            "No team is configured: set memory.notes.url, or KODE_NOTES_URL, to an address like "
            "postgresql://ada@db.example/kode."
        )
    return address
