"""Shows a running command what became of files after it started.

The kernel's overlay does not promise that a command sees files of the real folder that changed
under it, and tells no watcher of them. So kode writes each file that a tool changed into the
command's copy, through a descriptor of the mounted copy that the launcher sent: there it is a
change like one of the command's own. Since the copy then equals the real file, it is none to apply.
"""

import contextlib
import os
import stat
from pathlib import Path

from kode import beneath


def show(view: int, root: Path, path: Path) -> None:
    """Makes a file below the folder of the descriptor `view` what it is below `root`: there with
    this content, or gone. Never follows a link, of the command or of the project. Never raises:
    what cannot be shown stays as the command has it."""
    *folders, name = path.relative_to(root).parts
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        open_below = beneath.open_below(view, folders, make=beneath.usual_mode)
        folder = opened.enter_context(open_below)
        try:
            real = opened.enter_context(beneath.open_folder(root / Path(*folders)))
            status = os.lstat(name, dir_fd=real)
        except (FileNotFoundError, NotADirectoryError, beneath.LinkInTheWay):
            os.unlink(name, dir_fd=folder)
            return
        if stat.S_ISLNK(status.st_mode):
            beneath.link_in(os.readlink(name, dir_fd=real), folder, name)
        elif stat.S_ISREG(status.st_mode):
            beneath.copy_in(real, name, folder, name, stat.S_IMODE(status.st_mode) & 0o777)
