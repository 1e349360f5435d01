"""Which files change below folders, as Linux reports it.

The kernel queues a change before the call that makes it returns, so what a program did is known
once it has ended. Not reported are changes made on another machine, and those made through another
hard link or, until the file is closed, through a memory map.
"""

import ctypes
import errno
import functools
import os
import struct
import sys
import weakref
from dataclasses import dataclass, field

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
"""Linux/inotify.h."""
_CREATE, _DELETE, _UNMOUNT, _OVERFLOW, _IGNORED = 0x100, 0x200, 0x2000, 0x4000, 0x8000
"""Linux/inotify.h."""
_ONLY_FOLDERS, _IS_FOLDER = 0x0100_0000, 0x4000_0000  # linux/inotify.h
_WATCHED = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_EVENT = struct.Struct("iIII")
"""`struct inotify_event`: watch, mask, cookie, length of the name that follows."""

_LOCAL = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # XFS
        0x9123683E,  # Btrfs
        0x01021994,  # tmpfs
        0x794C7630,  # overlayfs
        0x2FC12FC1,  # ZFS
        0xF2F52010,  # F2FS
        0xCA451A4E,  # bcachefs
    }
)
"""File systems (linux/magic.h) that only this machine changes."""


@dataclass
class Folders:
    """The watched folders. Raises: OSError when made, if the system has no inotify or no more."""

    names: dict[int, str] = field(default_factory=dict)
    """Watch → absolute path."""
    descriptor: int = field(init=False)

    def __post_init__(self) -> None:
        self.descriptor = _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        weakref.finalize(self, os.close, self.descriptor)

    def watch(self, folder: str) -> None:
        """Reports what changes in a folder from now on, but not below it. Raises: OSError."""
        mask = _WATCHED | _ONLY_FOLDERS
        found = _libc().inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        self.names[_checked(found)] = folder

    def changes(self) -> tuple[set[str], set[str]] | None:
        """Names that have changed, and those among them that are new folders, both as absolute
        paths; None if that is not known, since there were too many or a folder was moved."""
        changed: set[str] = set()
        folders: set[str] = set()
        whole = True
        while data := self._read():
            position = 0
            while position < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, position)
                position += _EVENT.size + length
                name = os.fsdecode(data[position - length : position].rstrip(b"\0"))
                folder = self.names.get(watch)
                is_folder = bool(mask & _IS_FOLDER)
                if mask & (_OVERFLOW | _UNMOUNT) or (is_folder and mask & _MOVED_FROM):
                    whole = False
                elif mask & _IGNORED:
                    self.names.pop(watch, None)
                elif name and folder is not None:
                    changed.add(f"{folder}/{name}")
                    if is_folder and mask & (_CREATE | _MOVED_TO):
                        folders.add(f"{folder}/{name}")
        return (changed, folders) if whole else None

    def _read(self) -> bytes:
        try:
            return os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return b""


def is_local(folder: str) -> bool:
    """Whether only this machine changes the files there. Raises: OSError."""
    found = ctypes.create_string_buffer(512)  # `struct statfs` has 120 bytes at most
    _checked(_libc().statfs(os.fsencode(folder), found))
    return ctypes.c_ulong.from_buffer(found).value in _LOCAL  # its first field is the type


def _checked(found: int) -> int:
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


@functools.cache
def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return ctypes.CDLL(None, use_errno=True)
