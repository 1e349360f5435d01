"""Ends the commands of a kode that was killed: SIGKILL leaves it no time to do so itself.

The first command of a process starts one `sh` beside it, which waits on a pipe. The system closes
the pipe when kode is gone, however it went; what `sh` had been told of by then it ends, found by
its process group and by its mark (see `processes`). After an ordinary end nothing is open, and it
just goes. Of each command it costs two short writes.

Not found are processes that left both their group and their environment behind, and, where there
is no `/proc` (macOS), those that left their group.
"""

import contextlib
import os
from dataclasses import dataclass, field

SHELL = "/bin/sh"

_SCRIPT = r"""
trap '' HUP INT QUIT TERM
cd /
open=
while read -r word mark group; do
  rest=
  for one in $open; do
    case $one in "$mark":*) ;; *) rest="$rest $one" ;; esac
  done
  open=$rest
  case $word in runs) open="$open $mark:$group" ;; esac
done
[ -n "$open" ] || exit 0
end() {
  marks=
  for one in $open; do
    marks="$marks -e ${one%%:*}"
    case ${one#*:} in ?*) kill -s "$1" -- "-${one#*:}" ;; esac
  done
  for file in $(grep -ls $marks /proc/[0-9]*/environ); do
    file=${file#/proc/}
    kill -s "$1" "${file%/environ}"
  done
}
end TERM
sleep 1
end KILL
end KILL
"""
"""Asks, waits, kills; once more for what one has started in between."""


@dataclass
class Watch:
    """The `sh` of one process; started when there is something to tell it."""

    pipe: int = -1
    """The end that is written to; it is open as long as this process lives."""
    open: dict[str, str] = field(default_factory=dict)
    """Mark → group ("" while it is not known) of the commands that run."""

    def begins(self, mark: str) -> None:
        """Before a command is started: it is found by its mark alone, should kode end now."""
        self._runs(mark, "")

    def runs(self, mark: str, group: int) -> None:
        """Once its process group is known."""
        self._runs(mark, str(group))

    def is_over(self, mark: str) -> None:
        """Nothing of it lives any more."""
        if self.open.pop(mark, None) is not None:
            self._say(f"over {mark}")

    def _runs(self, mark: str, group: str) -> None:
        self.open[mark] = group
        self._say(f"runs {mark} {group}")

    def _say(self, line: str) -> None:
        # A machine where this is not to be had still runs its commands.
        with contextlib.suppress(OSError):
            try:
                if self.pipe < 0:
                    raise BrokenPipeError
                os.write(self.pipe, f"{line}\n".encode())
            except BrokenPipeError:  # none yet, or somebody has ended it
                self._start()
                lines = [f"runs {mark} {group}\n" for mark, group in self.open.items()]
                os.write(self.pipe, "".join(lines).encode())

    def _start(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1
        read, written = os.pipe()
        try:
            os.set_blocking(written, False)
            os.posix_spawn(
                SHELL,
                [SHELL, "-c", _SCRIPT],
                # Without a mark: an outer kode must not take it for a command that was left.
                {"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # A Ctrl-C at the terminal is not for it.
                setpgroup=0,
            )
        except BaseException:
            os.close(written)
            raise
        finally:
            os.close(read)
        self.pipe = written


WATCH = Watch()
"""Of this process."""
