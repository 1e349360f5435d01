"""Whether `$KODE_HOME` is the person's own: whoever can write there decides what kode runs."""

import os
import stat
from pathlib import Path

from kode.errors import ConfigError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def guard_home(home: Path) -> str:
    """Lets nobody else write in `home`; returns a sentence if somebody could, else "".

    Raises: ConfigError where the folder, or a file or folder in it, belongs to another user than
        this one and root, or where others can write and it cannot be changed.
    """
    try:
        status = home.stat()
        owners = {home: status.st_uid}
        with os.scandir(home) as entries:
            owners |= {
                home / entry.name: entry.stat(follow_symlinks=False).st_uid for entry in entries
            }
    except OSError:
        return ""  # missing, or no folder: whoever needs it says so
    for path, uid in owners.items():
        if uid not in (os.geteuid(), 0):
            raise ConfigError(
                f"{path} belongs to another user (uid {uid}), who could have kode run anything: "
                f"nothing in {home} is used. Take it over (`chown`) or delete it once you have "
                "looked through it, or set KODE_HOME to a folder of your own."
            )
    if not status.st_mode & _OTHERS_WRITE:
        return ""
    try:
        home.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
    except OSError as error:
        raise ConfigError(
            f"Others can write in {home}, and its mode cannot be changed ({error.strerror}). Set "
            "KODE_HOME to a folder of your own."
        ) from None
    return (
        f"Others could write in {home}; now only you can. If it was not you who allowed that, "
        "look through config.json and `kode extensions trust list`."
    )
