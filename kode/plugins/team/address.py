"""Where a team's notes are: the server, the team, this machine."""

import hashlib
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kode.plugin import ConfigError, keep_secret


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
        """Differs for each server, person and team, since what one may see is not what another
        may."""
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


def team_of(settings: Any) -> Address:
    """As `address_of`. Raises: ConfigError where none is configured, too."""
    address = address_of(settings)
    if address is None:
        raise ConfigError(
            "No team is configured: set memory.notes.url, or KODE_NOTES_URL, to an address like "
            "postgresql://ada@db.example/kode."
        )
    return address
