"""What a disk may hold after a power cut: a model that replays recorded system calls.

Kept for sure is only what was synced: a file's content by an fsync of the file, a name by an fsync
of its folder. Everything else may be there, be missing, or be there in part: unsynced writes are
torn or leave zeros, unsynced creations, renames and removals of one folder happen or not, in any
order. A file system that promises more than POSIX leaves fewer states than are built here.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.strace import Call

MOST_STATES = 60
"""Of one moment; where more are possible, so many are drawn (the same each time)."""


@dataclass(eq=False)
class File:
    kept: bytes = b""
    """What was synced."""
    now: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    """(offset, data) of writes since; (size, b"") is a truncation to a size."""

    def write(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        self.now = _written(self.now, offset, data)

    def sync(self) -> None:
        self.kept, self.pending = self.now, []

    def contents(self) -> list[bytes]:
        """Every content the disk may hold, the likeliest first, once each."""
        if not self.pending:
            return [self.kept]
        states = [self.kept]
        for offset, data in self.pending:
            before = states[-1]
            if data:
                states.append(_written(before, offset, data[: len(data) // 2]))
                states.append(_written(before, offset, bytes(len(data))))
            states.append(_written(before, offset, data))
        return list(dict.fromkeys([states[-1], *states]))


@dataclass(eq=False)
class Folder:
    kept: dict[str, "File | Folder"] = field(default_factory=dict)
    now: dict[str, "File | Folder"] = field(default_factory=dict)
    pending: list[tuple[str | None, str | None, "File | Folder | None"]] = field(
        default_factory=list
    )
    """(name that goes, name that comes, what it names)."""

    def change(self, gone: str | None, come: str | None, node: "File | Folder | None") -> None:
        self.pending.append((gone, come, node))
        _renamed(self.now, gone, come, node)

    def sync(self) -> None:
        self.kept, self.pending = dict(self.now), []

    def entries(self) -> list[dict[str, "File | Folder"]]:
        """Every set of names the disk may hold: all, none, each change alone or left out, and
        each beginning of the changes."""
        count = len(self.pending)
        whole = range(count)
        chosen = [tuple(whole), ()]
        chosen += [(i,) for i in whole]
        chosen += [tuple(i for i in whole if i != left) for left in whole]
        chosen += [tuple(range(i)) for i in whole]
        states = []
        for choice in dict.fromkeys(chosen):
            names = dict(self.kept)
            for i in choice:
                _renamed(names, *self.pending[i])
            states.append(names)
        return states


class Disk:
    """A tree of folders below one path, as the calls change it."""

    def __init__(self, root: Path, leave_out: Callable[[str], bool] = lambda path: False) -> None:
        """What is there now counts as synced. `leave_out`: paths that are not looked at."""
        self.root = root
        self.leave_out = leave_out
        self.top = _loaded(root, leave_out)
        self.open: dict[tuple[int, int | None], tuple[File, int | None]] = {}
        """(process, descriptor) → the file and its place; None: it appends."""

    def play(self, call: Call) -> bool:
        """Takes one call in; False when it changed nothing here."""
        inside = [p for p in call.paths if p == str(self.root) or p.startswith(f"{self.root}/")]
        if len(inside) < len(call.paths) or any(map(self.leave_out, inside)):
            return False
        if any("/sandbox/layers-" in path for path in inside):
            return False  # the throw-away copy of a command, in part the kernel's own
        path = call.paths[0]
        match call.name:
            case "openat":
                return self._open(call, path)
            case "write" | "writev" | "pwrite64":
                return self._write(call, path)
            case "lseek":
                file = self._file(path)
                if file is not None and self.open.get((call.pid, call.fd), (0, 0))[1] is not None:
                    self.open[call.pid, call.fd] = (file, call.offset)
                return False
            case "ftruncate" | "truncate":
                file = self._file(path)
                if file is None:
                    return False
                file.pending.append((call.size, b""))
                file.now = _written(file.now, call.size, b"")
            case "fsync" | "fdatasync":
                node = self._node(path)
                if node is None:
                    return False
                node.sync()
            case "mkdir" | "mkdirat":
                folder, name = self._place(path)
                folder.change(None, name, Folder())
            case "unlink" | "unlinkat" | "rmdir":
                folder, name = self._place(path)
                folder.change(name, None, None)
            case "rename" | "renameat" | "renameat2":
                old, name = self._place(path)
                new, new_name = self._place(call.paths[1])
                node = old.now[name]
                if old is new:
                    old.change(name, new_name, node)
                else:
                    new.change(None, new_name, node)
                    old.change(name, None, None)
            case "link" | "linkat":
                folder, name = self._place(call.paths[1])
                folder.change(None, name, self._node(path))
            case _:
                return False
        return True

    def states(self) -> Iterator[dict[str, bytes | None]]:
        """Every tree that may be left now: path below the root → content, None for a folder."""
        dirty: list[File | Folder] = [node for node in self._nodes() if node.pending]
        choices = [n.contents() if isinstance(n, File) else n.entries() for n in dirty]
        for choice in _drawn(choices):
            chosen = dict(zip(map(id, dirty), choice, strict=True))
            tree: dict[str, bytes | None] = {}
            _collect(self.top, "", chosen, tree)
            yield tree

    def _nodes(self) -> list[File | Folder]:
        """Everything that has a name, kept or pending."""
        found: dict[int, File | Folder] = {}
        waiting: list[File | Folder] = [self.top]
        while waiting:
            node = waiting.pop()
            if id(node) in found:
                continue
            found[id(node)] = node
            if isinstance(node, Folder):
                waiting += [*node.kept.values(), *node.now.values()]
                waiting += [come for _, _, come in node.pending if come is not None]
        return list(found.values())

    def _open(self, call: Call, path: str) -> bool:
        node = self._node(path)
        changed = False
        if node is None and "O_CREAT" in call.flags:
            node = File()
            folder, name = self._place(path)
            folder.change(None, name, node)
            changed = True
        if not isinstance(node, File):
            return False
        if "O_TRUNC" in call.flags and node.now:
            node.pending.append((0, b""))
            node.now = b""
            changed = True
        self.open[call.pid, call.fd] = (node, None if "O_APPEND" in call.flags else 0)
        return changed

    def _write(self, call: Call, path: str) -> bool:
        file = self._file(path)
        if file is None:
            return False
        if call.offset is not None:
            file.write(call.offset, call.data)
            return True
        _, place = self.open.get((call.pid, call.fd), (file, None))
        file.write(len(file.now) if place is None else place, call.data)
        if place is not None:
            self.open[call.pid, call.fd] = (file, place + len(call.data))
        return True

    def _node(self, path: str) -> File | Folder | None:
        node: File | Folder | None = self.top
        for part in Path(path).relative_to(self.root).parts:
            node = node.now.get(part) if isinstance(node, Folder) else None
        return node

    def _file(self, path: str) -> File | None:
        node = self._node(path)
        return node if isinstance(node, File) else None

    def _place(self, path: str) -> tuple[Folder, str]:
        folder = self._node(str(Path(path).parent))
        assert isinstance(folder, Folder), path
        return folder, Path(path).name


def build(tree: dict[str, bytes | None], folder: Path) -> None:
    """Makes a state real, below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tree.items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            path.write_bytes(content)


def _collect(
    folder: Folder, prefix: str, chosen: dict[int, object], tree: dict[str, bytes | None]
) -> None:
    names = chosen.get(id(folder), folder.kept)
    assert isinstance(names, dict)
    for name, node in names.items():
        path = f"{prefix}{name}"
        if isinstance(node, Folder):
            tree[path] = None
            _collect(node, f"{path}/", chosen, tree)
        else:
            content = chosen.get(id(node), node.kept)
            assert isinstance(content, bytes)
            tree[path] = content


def _drawn(choices: Sequence[Sequence[object]]) -> Iterator[tuple[object, ...]]:
    total = 1
    for options in choices:
        total *= len(options)
    if total <= MOST_STATES:
        yield from itertools.product(*choices)
        return
    draw = random.Random(total)
    yield tuple(options[0] for options in choices)
    yield tuple(options[1] if len(options) > 1 else options[0] for options in choices)
    for index, options in enumerate(choices):  # each alone, beside what is all there
        for option in options[1:]:
            yield tuple(option if i == index else other[0] for i, other in enumerate(choices))
    for _ in range(MOST_STATES // 2):
        yield tuple(draw.choice(options) for options in choices)


def _written(content: bytes, offset: int, data: bytes) -> bytes:
    if not data:
        return content[:offset] + bytes(max(0, offset - len(content)))
    padded = content + bytes(max(0, offset - len(content)))
    return padded[:offset] + data + padded[offset + len(data) :]


def _renamed(
    names: dict[str, File | Folder], gone: str | None, come: str | None, node: File | Folder | None
) -> None:
    if gone is not None:
        names.pop(gone, None)
    if come is not None and node is not None:
        names[come] = node


def _loaded(path: Path, leave_out: Callable[[str], bool]) -> Folder:
    names: dict[str, File | Folder] = {}
    for entry in path.iterdir() if path.is_dir() else ():
        if leave_out(str(entry)):
            continue
        if entry.is_dir():
            names[entry.name] = _loaded(entry, leave_out)
        else:
            data = entry.read_bytes()
            names[entry.name] = File(kept=data, now=data)
    return Folder(kept=dict(names), now=dict(names))
