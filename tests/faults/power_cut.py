"""What a disk may hold after a power cut: a model that replays recorded system calls.

Kept for sure is only what was synced: a file's content by an fsync of the file, a name by an fsync
of its folder. Everything else may be there, be missing, or be there in part: unsynced writes are
torn or leave zeros, unsynced creations, renames and removals of one folder happen or not, in any
order. A file system that promises more than POSIX leaves fewer states than are built here.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.strace import Call

Tree = dict[str, bytes | None]
"""Path → content, None for a folder."""

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

    def states(self) -> list[bytes]:
        """Every content the disk may hold, the likeliest first, once each."""
        states = [self.kept]
        for offset, data in self.pending:
            before = states[-1]
            if data:
                states.append(_written(before, offset, data[: len(data) // 2]))
                states.append(_written(before, offset, bytes(len(data))))
            states.append(_written(before, offset, data))
        return list(dict.fromkeys([states[-1], *states]))


Names = dict[str, "File | Folder"]


@dataclass(eq=False)
class Folder:
    kept: Names = field(default_factory=dict)
    now: Names = field(default_factory=dict)
    pending: list[dict[str, "File | Folder | None"]] = field(default_factory=list)
    """What names stand for after each change since, None for nothing."""

    def change(self, names: dict[str, "File | Folder | None"]) -> None:
        self.pending.append(names)
        self.now = _changed(self.now, [names])

    def sync(self) -> None:
        self.kept, self.pending = self.now, []

    def states(self) -> list[Names]:
        """Every set of names the disk may hold: all changes, none, each alone or left out, and
        each beginning of them."""
        whole = range(len(self.pending))
        chosen = [tuple(whole), ()]
        chosen += [(i,) for i in whole]
        chosen += [tuple(i for i in whole if i != left) for left in whole]
        chosen += [tuple(range(i)) for i in whole]
        choices = dict.fromkeys(chosen)
        return [_changed(self.kept, [self.pending[i] for i in choice]) for choice in choices]


class Disk:
    """A tree of folders below one path, as the calls change it."""

    def __init__(self, root: Path, leave_out: Callable[[str], bool]) -> None:
        """What is there now counts as synced. `leave_out`: paths that are not looked at."""
        self.root = root
        self.leave_out = leave_out
        self.top = _load(root, leave_out)
        self.open: dict[tuple[int, int | None], tuple[File, int | None]] = {}
        """(process, descriptor) → the file and its place; None: it appends."""

    def play(self, call: Call) -> bool:
        """Takes one call in; False when it changed nothing here."""
        inside = [p for p in call.paths if p == str(self.root) or p.startswith(f"{self.root}/")]
        if len(inside) < len(call.paths) or any(map(self.leave_out, inside)):
            return False
        path = call.paths[0]
        node = self._node(path)
        match call.name:
            case "openat":
                return self._open(call, path, node)
            case "write" | "writev" | "pwrite64" if isinstance(node, File):
                self._write(call, node)
            case "lseek":
                _, place = self.open.get((call.pid, call.fd), (None, None))
                if isinstance(node, File) and place is not None:
                    self.open[call.pid, call.fd] = (node, call.offset)
                return False
            case "ftruncate" | "truncate" if isinstance(node, File):
                node.write(call.size, b"")
            case "fsync" | "fdatasync" if node is not None:
                node.sync()
            case "mkdir" | "mkdirat":
                self._change({path: Folder()})
            case "unlink" | "unlinkat" | "rmdir":
                self._change({path: None})
            case "rename" | "renameat" | "renameat2":
                self._change({path: None, call.paths[1]: node})
            case "link" | "linkat":
                self._change({call.paths[1]: node})
            case _:
                return False
        return True

    def states(self) -> Iterator[Tree]:
        """Every tree that may be left now, its paths below the root."""
        dirty = [node for node in self._nodes() if node.pending]
        for choice in _draw([node.states() for node in dirty]):
            tree: Tree = {}
            _collect(self.top, "", dict(zip(map(id, dirty), choice, strict=True)), tree)
            yield tree

    def _nodes(self) -> list[File | Folder]:
        """Everything that has a name, kept or pending."""
        nodes: dict[int, File | Folder] = {}
        waiting: list[File | Folder] = [self.top]
        while waiting:
            node = waiting.pop()
            if id(node) not in nodes:
                nodes[id(node)] = node
                if isinstance(node, Folder):
                    waiting += [*node.kept.values(), *node.now.values()]
                    waiting += [n for names in node.pending for n in names.values() if n]
        return list(nodes.values())

    def _open(self, call: Call, path: str, node: File | Folder | None) -> bool:
        is_new = node is None and "O_CREAT" in call.flags
        if is_new:
            node = File()
            self._change({path: node})
        if not isinstance(node, File):
            return False
        is_cut = "O_TRUNC" in call.flags and node.now != b""
        if is_cut:
            node.write(0, b"")
        self.open[call.pid, call.fd] = (node, None if "O_APPEND" in call.flags else 0)
        return is_new or is_cut

    def _write(self, call: Call, file: File) -> None:
        _, place = self.open.get((call.pid, call.fd), (file, None))
        if call.offset is not None:
            file.write(call.offset, call.data)
        elif place is None:
            file.write(len(file.now), call.data)
        else:
            file.write(place, call.data)
            self.open[call.pid, call.fd] = (file, place + len(call.data))

    def _node(self, path: str) -> File | Folder | None:
        node: File | Folder | None = self.top
        for part in Path(path).relative_to(self.root).parts:
            node = node.now.get(part) if isinstance(node, Folder) else None
        return node

    def _change(self, nodes: dict[str, File | Folder | None]) -> None:
        """What each path stands for now; paths in one folder change at the same time."""
        for parent in dict.fromkeys(Path(path).parent for path in reversed(nodes)):
            folder = self._node(str(parent))
            assert isinstance(folder, Folder), parent
            names = {Path(p).name: node for p, node in nodes.items() if Path(p).parent == parent}
            folder.change(names)


def build(tree: Tree, folder: Path) -> None:
    """Makes a state real, below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tree.items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            path.write_bytes(content)


def _collect(folder: Folder, prefix: str, chosen: dict[int, object], tree: Tree) -> None:
    names = chosen.get(id(folder), folder.kept)
    assert isinstance(names, dict)
    for name, node in names.items():
        if isinstance(node, Folder):
            tree[f"{prefix}{name}"] = None
            _collect(node, f"{prefix}{name}/", chosen, tree)
        else:
            content = chosen.get(id(node), node.kept)
            assert isinstance(content, bytes)
            tree[f"{prefix}{name}"] = content


def _draw(choices: Sequence[Sequence[object]]) -> Iterator[tuple[object, ...]]:
    """All combinations, or where they are many: each state alone beside what is all there, all that
    is missing, and some at random."""
    total = math.prod(map(len, choices))
    if total <= MOST_STATES:
        yield from itertools.product(*choices)
        return
    draw = random.Random(total)
    yield tuple(options[0] for options in choices)
    yield tuple(options[1] if len(options) > 1 else options[0] for options in choices)
    for index, options in enumerate(choices):
        for option in options[1:]:
            yield tuple(option if i == index else other[0] for i, other in enumerate(choices))
    for _ in range(MOST_STATES // 2):
        yield tuple(draw.choice(options) for options in choices)


def _written(content: bytes, offset: int, data: bytes) -> bytes:
    padded = content + bytes(max(0, offset - len(content)))
    return padded[:offset] + data + padded[offset + len(data) :] if data else padded[:offset]


def _changed(names: Names, changes: Sequence[dict[str, File | Folder | None]]) -> Names:
    changed: dict[str, File | Folder | None] = {**names}
    for change in changes:
        changed |= change
    return {name: node for name, node in changed.items() if node is not None}


def _load(path: Path, leave_out: Callable[[str], bool]) -> Folder:
    names: Names = {}
    for entry in path.iterdir() if path.is_dir() else ():
        if not leave_out(str(entry)):
            data = b"" if entry.is_dir() else entry.read_bytes()
            names[entry.name] = _load(entry, leave_out) if entry.is_dir() else File(data, data)
    return Folder(names, names)
