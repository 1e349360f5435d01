"""`kode run --record FILE` and `--replay FILE`: records a run as a cassette, and runs with a
cassette as the model.

Neither uses memory: a run must depend only on its files.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable, installed, paths
from kode.cli.flags import SCRIPTED
from kode.cli.parser import Parser
from kode.errors import ConfigError

if TYPE_CHECKING:
    from kode.provider import Recorded

FORMAT = "cassette"
"""The format of `kode session export` that such a file has."""


def add_cassette_flags(parser: Parser) -> None:
    """Adds the flags; each is None if it was not given."""
    add = parser.add_argument
    add("--record", metavar="FILE", help="record this run as a cassette; without memory")
    add("--replay", metavar="FILE", help="take the model's answers from a cassette")


def cassette_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The configuration that the flags set. Raises: ConfigError."""
    record, replay = _files(arguments)
    if record and arguments.no_session:
        raise ConfigError(
            "--record needs a saved session: it cannot be used with --no-session. Drop one."
        )
    if record and (record.is_dir() or not record.parent.is_dir()):
        raise ConfigError(f"--record {record}: name a file in a folder that exists.")
    if not record and not replay:
        return {}
    # A cassette needs no key, whatever provider the settings name.
    provider = {"provider": SCRIPTED} if replay else {}
    return {"memory.enabled": False, **provider}


@contextlib.contextmanager
def model_of(arguments: argparse.Namespace) -> "Iterator[Recorded | None]":
    """The model of `--replay`; None without. Raises: SessionError for a file that is not a
    cassette."""
    _, replay = _files(arguments)
    if replay is None:
        yield None
        return
    if not replay.is_file():
        raise ConfigError(f"There is no file {replay}. `kode run --record {replay} TASK` makes it.")
    with installed.call(*installed.added("replays")[FORMAT], replay) as recorded:
        yield recorded


def keep(arguments: argparse.Namespace, session_id: str | None) -> None:
    """Writes the cassette of `--record` after the run. Raises: SessionError, StorageError."""
    record, _ = _files(arguments)
    if record is None or session_id is None:
        return
    from kode.session.reading import session_path
    from kode.session.transcript import Transcript

    transcript = Transcript.read(session_path(paths.home(), session_id))
    made = installed.call(*installed.added("exports")[FORMAT], transcript)
    durable.replace(record, made.data)
    if not arguments.quiet:
        print(f"recorded: {record}, which holds:", file=sys.stderr)
        for line in made.contains:
            print(f"  {line}", file=sys.stderr)


def _files(arguments: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """`kode continue` has neither flag. Raises: ConfigError for both, and where nothing plays
    cassettes."""
    given = (getattr(arguments, name, None) for name in ("record", "replay"))
    record, replay = (None if one is None else Path(one) for one in given)
    if record and replay:
        raise ConfigError("--record and --replay are two ways to run: give one of them.")
    if (record or replay) and FORMAT not in installed.added("replays"):
        raise ConfigError(
            "--record and --replay need a plug-in that is off or missing: one that writes and "
            f"plays the format {FORMAT}. `kode plugin list` shows those that are installed."
        )
    return record, replay
