"""`/init` and `/review`: turns whose task is worded by kode, in `kode.prompts`."""

import asyncio
from pathlib import Path

from kode import paths
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.turn import run_turn
from kode.cli.screen.lines import one_line
from kode.errors import UserError

WORKING_TREE = (
    "the uncommitted changes of this repository: `git status`, `git diff HEAD`, and the files that "
    "are not tracked yet"
)
BRANCH = (
    "the branch `{name}`: everything it changes since it left the branch it is to be merged into, "
    "which is most likely the repository's default branch (`git merge-base`, then `git diff`)"
)


async def write_instructions(state: PromptState, argument: str) -> None:
    """Runs a turn in which the model writes or improves AGENTS.md."""
    from kode.prompts import template

    wish = f"\n\nThe person adds: {argument}" if argument else ""
    await run_turn(state, template("init") + wish, f"/init {argument}".strip())


async def review(state: PromptState, argument: str) -> None:
    """Runs a turn in which the model reviews the working tree, or the named branch.

    Raises: UserError if there is nothing to review.
    """
    from kode.prompts import template

    what = await asyncio.to_thread(_to_review, state.conversation.place.cwd, argument)
    if not what:
        state.screen.print(
            "Nothing to review: no uncommitted changes. /review BRANCH reviews a branch.", "dim"
        )
        return
    await run_turn(state, template("review").replace("{what}", what), f"/review {argument}".strip())


def _to_review(cwd: Path, branch: str) -> str:
    """What to review, in words for the model; "" for a clean working tree."""
    from kode.errors import GitError
    from kode.git import run_git

    root = paths.repository_root(cwd)
    if root is None:
        raise UserError("This folder is not in a git repository: tell kode what to review instead.")
    try:
        if not branch:
            return WORKING_TREE if run_git(root, ["status", "--porcelain"]).strip() else ""
    except GitError as error:
        raise UserError(f"git could not list the changes: {error}.") from error
    try:
        run_git(root, ["rev-parse", "--verify", "--end-of-options", f"{branch}^{{commit}}"])
    except GitError as error:
        raise UserError(
            f"There is no branch or commit {one_line(branch)!r} here. `!git branch -a` lists them."
        ) from error
    return BRANCH.format(name=one_line(branch))
