"""What the commands of one sandbox share: where their layers and masks lie, a temporary folder, a
network, and what earlier ones left there."""

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kode import paths
from kode.paths import real_path
from kode.sandbox.apply import carry_over, drop_idle_whiteouts
from kode.sandbox.layer import Layer
from kode.sandbox.loopback import Loopback, make_loopback
from kode.sandbox.masks import Masks
from kode.sandbox.store import Store, open_store, places
from kode.sandbox.view import Ground
from kode.tool import FileChange

Kind = Literal["bubblewrap", "landlock", "seatbelt", "none"]


@dataclass
class Shared:
    """What the commands of one sandbox share; everything is made when it is first needed."""

    ground: Ground
    denied: Callable[[str], bool] = lambda path: False
    """Whether a rule of the person denies reading a path."""
    showing: list[Callable[[Iterable[Path]], None]] = field(default_factory=list)
    """Of each command in it that has not ended: shows it these files as they are now."""
    below: dict[Path, Path] = field(default_factory=dict)
    """Working folder → holder of what commands of this session wrote and is not real."""
    _whiteouts: dict[Path, set[Path]] = field(default_factory=dict)
    """Working folder → the paths in it that such a holder hides."""
    _temporary: str = ""
    _store: Store | None = None
    _masks: tuple[Masks, ...] = ()
    _loopback: Loopback | None = None
    _can_share: bool = True
    """Whether to try for a network that its commands share: False once that has failed."""
    _one_thread: threading.RLock = field(default_factory=threading.RLock)
    """A hook and a command may need something for the first time at once."""

    def masked(self) -> list[Path]:
        """The files and folders with keys in the working folders, as they are now."""
        with self._one_thread:
            if not self._masks:
                git = frozenset(folder.path for folder in self.ground.git)
                self._masks = tuple(Masks(tree, self.denied, git) for tree in self.ground.trees)
        return [path for masks in self._masks for path in masks.paths()]

    def temporary_inside(self, kind: Kind) -> str:
        return "/tmp" if kind == "bubblewrap" else self.temporary_folder()

    def temporary_folder(self) -> str:
        """One folder for all commands of a process, because one leaves files for the next."""
        with self._one_thread:
            if not os.path.isdir(self._temporary):  # never created, or deleted
                store = self.store()
                if store is None:
                    self._temporary = real_path(tempfile.mkdtemp(prefix="kode-sandbox-"))
                    atexit.register(shutil.rmtree, self._temporary, ignore_errors=True)
                else:
                    (store / "tmp").mkdir(mode=0o700, exist_ok=True)
                    self._temporary = real_path(store / "tmp")
            return self._temporary

    def loopback(self) -> Loopback | None:
        """The network that its commands share; None where each has its own, or the machine's."""
        with self._one_thread:
            if self._loopback is None and self._can_share and not self.ground.network:
                self._loopback = make_loopback()
                self._can_share = self._loopback is not None
            return self._loopback

    def store(self) -> Path | None:
        """The folder for layers and masks; None if none can be created."""
        with self._one_thread:
            if self._store is None:
                self._store = open_store(_places_for_layers(self.ground))
                if self._store is not None:
                    atexit.register(self._store.close)
            return None if self._store is None else self._store.folder

    def carry_over(self, over: Sequence[Layer], changes: Sequence[FileChange]) -> None:
        """Keeps what a command wrote for the next ones."""
        store = self.store()
        for layer in over:
            own = [each for each in changes if Path(each.path).is_relative_to(layer.root)]
            if store is None or not own:
                continue
            below = store / f"below-{paths.path_hash(layer.root)}"
            (below / "upper").mkdir(parents=True, exist_ok=True)
            self._whiteouts.setdefault(layer.root, set()).update(
                carry_over(layer, own, below / "upper")
            )
            self.below[layer.root] = below

    def carried_layer(self, root: Path) -> Path | None:
        """The holder of what commands wrote in a working folder, as it fits what is real now."""
        below = self.below.get(root)
        if below is not None:
            drop_idle_whiteouts(root, below / "upper", self._whiteouts[root])
        return below

    def forget(self) -> None:
        """Drops ignored files of earlier commands: what a build created outside is newer."""
        for below in self.below.values():
            shutil.rmtree(below, ignore_errors=True)
        self.below, self._whiteouts = {}, {}

    def close(self) -> None:
        """Removes everything, unless a command still runs in it."""
        with self._one_thread:
            if self.showing:
                return
            self.below, self._whiteouts, self._temporary = {}, {}, ""
            if self._store is not None:
                atexit.unregister(self._store.close)
                self._store.close()
                self._store = None
            if self._loopback is not None:
                self._loopback.close()
                self._loopback = None


def _places_for_layers(ground: Ground) -> list[Path]:
    """Where layers may lie: not in a working folder, and hidden from commands."""
    folders = ground.folders
    return [p for p in places(ground.kode_home) if not any(p.is_relative_to(f) for f in folders)]
