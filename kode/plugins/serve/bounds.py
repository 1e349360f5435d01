"""Limits for clients of the server: folders, mode, nesting, cost.

A client acts for the person who started the server: within what the server's flags and the person's
own settings allow.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kode.plugin import (
    PermissionMode,
    UserError,
    expand_path,
    kode_home,
    load_config,
    project_root,
    real_path,
)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a client requests for a session; None: the person's settings apply."""

    mode: PermissionMode | None = None
    model: str | None = None
    max_steps: int | None = None
    max_budget_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Bounds:
    roots: tuple[Path, ...]
    """The folders that sessions may work in; absolute, links resolved."""
    full: bool = False
    """Whether mode `full` may be requested."""
    depth: int = 0
    """How many kodes this process is nested in; from `KODE_DEPTH`."""

    def holds(self, folder: Path) -> bool:
        """Whether a real path is a root, or below one."""
        return any(folder.is_relative_to(root) for root in self.roots)

    def folder(self, cwd: str) -> Path:
        """The real folder that `cwd` names. Raises: UserError if it is missing, or no root allows
        it."""
        try:
            folder = expand_path(cwd).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"{cwd} does not exist. Give the absolute path of a folder.") from error
        if not folder.is_dir():
            raise UserError(f"{cwd} is not a folder. Give the folder to work in.")
        if not self.holds(folder):
            allowed = ", ".join(map(str, self.roots))
            raise UserError(
                f"{folder} is outside the folders this server may work in ({allowed}). The person "
                f"can allow it by starting it as `kode mcp serve --root {folder}`."
            )
        return folder

    def settings(self, cwd: Path, wish: Wish) -> Any:
        """The person's settings for a session in `cwd`, with the client's wishes, which can only
        lower limits.

        Raises: UserError for what the server does not allow; ConfigError.
        """
        loaded = load_config(kode_home(), cwd, environ=os.environ, flags={})
        config = loaded.config
        deeper = config.subagent.max_depth - self.depth
        if deeper < 0:
            raise UserError(
                f"This kode was started inside {self.depth} others, and `subagent.max_depth` is "
                f"{config.subagent.max_depth}: do the work in the session that you are."
            )
        mode = self.mode(wish.mode, config.permissions.mode, cwd)
        steps = min(wish.max_steps or config.max_steps, config.max_steps)
        budgets = [usd for usd in (wish.max_budget_usd, config.max_budget_usd) if usd is not None]
        changes = {
            "permissions": config.permissions.model_copy(update={"mode": mode}),
            "subagent": config.subagent.model_copy(update={"max_depth": deeper}),
            "max_steps": steps,
            "max_budget_usd": min(budgets, default=None),
            "model": wish.model or config.model,
        }
        return replace(loaded, config=config.model_copy(update=changes))

    def mode(self, wished: PermissionMode | None, own: PermissionMode, cwd: Path) -> PermissionMode:
        """The mode of a session in `cwd`. If the person's `own` is looser than this server allows,
        it is `ask`. Raises: UserError if the wish is."""
        mode, project = wished or own, project_root(cwd)
        if mode == "full" and not self.full:
            reason = (
                "Mode full is not allowed here: use auto-edit, which asks about what leaves the "
                "project, or the person starts the server with --allow-full."
            )
        elif mode == "auto-edit" and not self.holds(Path(real_path(project))):
            reason = (
                f"In mode auto-edit commands may change all of the repository {project}, which is "
                "more than this server may work in. Use mode ask, or the person starts it as "
                f"`kode mcp serve --root {project}`."
            )
        else:
            return mode
        if wished:
            raise UserError(reason)
        return "ask"
