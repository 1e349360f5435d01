"""What a command changes for those after it: the folder, variables, functions.

A state holds what is known. Where two ways lead to a command, only what they agree on is. Which
ways there are is `flow`'s.
"""

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kode.permissions.shell.words import Word

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_FOLDERS = 4


@dataclass(slots=True, kw_only=True)
class ShellState:
    cwd: str | None
    """None after a `cd` to a place that is not known."""
    instead: tuple[str | None, ...] = ()
    """Folders it may be in as well: the `cd` before may have failed, or not have run."""
    variables: dict[str, Word | None]
    """None, like a name that is missing, for a value that is not known."""
    functions: dict[str, "Node"] = field(default_factory=dict)
    """Their definitions, where they are surely defined."""

    def copy(self) -> "ShellState":
        return replace(self, variables=dict(self.variables), functions=dict(self.functions))

    def move(self, targets: list[Word], home: str) -> None:
        """`cd`, which stays where it is when the folder is not there."""
        before = (self.cwd, *self.instead)
        after = [_moved(folder, targets, home) for folder in before]
        self.cwd = after[0]
        there = self.cwd is None or os.path.isdir(self.cwd)
        self.instead = _others(self.cwd, [*after[1:], *(() if there else before)])
        self.variables["PWD"] = None if self.cwd is None or self.instead else Word(self.cwd)

    def leave(self) -> None:
        """`pushd` and `popd` to a folder of the shell's own list."""
        self.cwd, self.instead = None, ()
        self.variables["PWD"] = None

    def knows_less_than(self, other: "ShellState") -> bool:
        """Whether something known in the other one is not, or is something else."""
        if (self.cwd, self.instead) != (other.cwd, other.instead):
            return True
        return any(
            value is not None and self.variables.get(name) != value
            for name, value in other.variables.items()
        )


def joined(*states: ShellState) -> ShellState:
    """What is known where several ways lead; `cwd` is that of the last."""
    last = states[-1]
    names = {name for state in states for name in state.variables}
    return ShellState(
        cwd=last.cwd,
        instead=_others(last.cwd, [f for state in states for f in (state.cwd, *state.instead)]),
        variables={name: _agreed(name, states) for name in names},
        functions={
            name: node
            for name, node in last.functions.items()
            if all(name in state.functions for state in states)
        },
    )


def _agreed(name: str, states: tuple[ShellState, ...]) -> Word | None:
    value = states[0].variables.get(name)
    return value if all(state.variables.get(name) == value for state in states) else None


def _others(cwd: str | None, folders: list[str | None]) -> tuple[str | None, ...]:
    found = tuple(dict.fromkeys(folder for folder in folders if folder != cwd))
    return found if len(found) < MAX_FOLDERS else (None,)


def _moved(folder: str | None, targets: list[Word], home: str) -> str | None:
    target = targets[0] if targets else Word(home)
    if len(targets) > 1 or not target.known or target.glob or re.match(r"[-+]", target.text):
        return None
    if target.text.startswith("/"):
        return target.text
    return None if folder is None else f"{folder}/{target.text}"
