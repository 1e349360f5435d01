"""What the engine and the gate call around each change of the running turn.

It adds the turn's number, keeps slow work off the event loop, and tells the person what could not
be saved. `checkpoints` decides what is saved and how.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import StorageError
from kode.events import Emit, Notice
from kode.git import git_record
from kode.session.checkpoints import Checkpoints
from kode.tool import AtStake
from kode.workplace import GitFolder

if TYPE_CHECKING:
    from kode.session.backup import Kept


@dataclass(frozen=True, kw_only=True)
class Keeper:
    checkpoints: Checkpoints
    turn: Callable[[], int]
    """The number of the running turn; for a subagent, its parent's."""
    emit: Emit
    git: tuple[GitFolder, ...] = ()
    changed_by_commands: list[str] = field(default_factory=list)
    """Files, and folders made as one, ignored ones too, until somebody takes them."""

    @property
    def folder(self) -> Path:
        """See `tool.ChangeKeeper`."""
        return self.checkpoints.folder

    def before_edit(self, path: str) -> None:
        """Raises: StorageError; then the file must not be changed."""
        self.checkpoints.keep(self.turn(), path)

    def after_edit(self, path: str, state: str | None) -> None:
        """`state` is the SHA-256 of what the tool wrote; None if unknown."""
        try:
            self.checkpoints.changed(path, state)
        except StorageError as error:
            self.emit(Notice(text=str(error), level="error"))

    async def keep_first(self, at_stake: AtStake) -> str:
        """Saves what a command may lose; returns a sentence about it for the permission
        question."""
        kept = await asyncio.to_thread(self.checkpoints.would_keep, at_stake)
        return kept.sentence()

    @contextlib.asynccontextmanager
    async def keeping(self, at_stake: AtStake) -> AsyncIterator[None]:
        """Wraps a command: saves what it may lose, and records what it did."""
        if not (at_stake.is_lost or at_stake.changed):
            yield
            return
        begin = self.checkpoints.begin_command
        async with self._kept(await asyncio.to_thread(begin, self.turn(), at_stake)):
            yield

    @contextlib.asynccontextmanager
    async def keeping_files(self, paths: Sequence[str]) -> "AsyncIterator[Kept]":
        """Wraps changes of exactly these files: saves their contents, except those in
        `not_kept`."""
        kept = await asyncio.to_thread(self.checkpoints.begin_changes, self.turn(), paths)
        async with self._kept(kept):
            yield kept

    @contextlib.asynccontextmanager
    async def _kept(self, kept: "Kept") -> AsyncIterator[None]:
        turn = self.turn()
        if kept.problem or (kept.at_stake.is_lost and kept.left_out):
            self.emit(Notice(text=kept.sentence()))
        try:
            yield
        finally:
            try:
                done = await asyncio.to_thread(self.checkpoints.end_command, turn, kept)
                self.changed_by_commands.extend(
                    path for path in done if not git_record(self.git, path)
                )
            except StorageError as error:
                self.emit(Notice(text=str(error), level="error"))
