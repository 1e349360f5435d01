"""What would this command line do? First form: what is not plainly a reader is `unknown`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from kode.permissions.shell_class import Classified, PartClass, whole


def classify(
    command: str,
    *,
    cwd: Path,
    roots: Sequence[Path],
    home: Path,
    protected: Sequence[Path] = (),
    temp: Sequence[Path] = (),
) -> Classified:
    """The class of a command line and of each of its parts. Never raises."""
    try:
        argv = tuple(shlex.split(command))
    except ValueError:
        argv = ()
    safe = argv in {("ls",), ("pwd",), ("git", "status")} and command.isprintable()
    part = PartClass(
        text=command,
        argv=argv if argv and not set(command) & set("|&;<>$`(){}*?[]~\n\\#!") else None,
        klass="safe" if safe else "unknown",
        reason="reads" if safe else "it is not known what it does",
    )
    return whole([part])
