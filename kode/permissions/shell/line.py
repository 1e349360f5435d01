"""What a command line would do, as its words tell: its parts, each with a risk."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Risk = Literal["safe", "write", "network", "unknown", "system", "destructive"]
"""What a command would do, from harmless to worst.

`safe` reads the project and prints. `write` changes files in the working folders or the temporary
folder. `network` talks to other machines. `unknown` could do anything. `system` changes the
machine, writes what runs later, or reads keys. `destructive` loses what cannot be restored.
"""

Leaves = Literal["", "keys", "push", "host", "machine", "place"]
"""What a command needs that the sandbox has not: files with keys; a repository to push to; another
host; the machine's own programs, accounts, settings or sockets; a place outside the project and the
private `/tmp`. Empty: nothing, so it can run there, and what it changes is judged afterwards."""

ORDER: tuple[Risk, ...] = ("safe", "write", "network", "unknown", "system", "destructive")

GRAVITY: tuple[Risk, ...] = ("safe", "unknown", "write", "network", "system", "destructive")
"""Which of several risks of one command counts: what it does by its name outweighs that it runs a
program, or an unknown file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One program of a line, a redirection to a file, or an assignment; or what a command does to
    one of the files that it names."""

    text: str = ""
    """As written."""
    argv: tuple[str, ...] | None = None
    """Its words without wrappers: `env X=1 git push` is `("git", "push")`. None if one of them is
    not literal, and for anything but a command."""
    risk: Risk = "safe"
    reason: str = ""
    """Plain words that complete "It ...": "deletes files"."""
    undo: str = ""
    """One sentence about what `/undo` cannot restore; "" if it restores everything."""
    offer: tuple[str, ...] = ()
    """The words an "always" rule may begin with; empty if none are specific enough."""
    secret: bool = False
    """Whether it names a file that holds keys."""
    protected: bool = False
    """Whether it names a path to write in kode's own folders."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Absolute paths that it names; globs are not expanded."""
    outside: bool = False
    """Whether it names a path outside the working folders, except a system document that it
    reads."""
    leaves: Leaves = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPart:
    """A command of a line that checks the project, and its place in its pipeline."""

    command: str
    """As written, without redirections."""
    alone: bool = False
    """Whether it is the whole line."""
    at: int = 0
    of: int = 0
    """It is number `at`, from 0, of so many; 0: nothing can tell how it ends, as in the
    background."""
    behind: int = 0
    """How many simple commands follow in the pipeline; others run in shells of their own."""
    forks: int = 0
    """How many others there are in the pipeline: subshells, loops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A command line, as its words tell what it does."""

    parts: tuple[Part, ...]
    only_reads: bool
    """Whether all of it is in the closed grammar and every part is `safe`."""
    known: bool
    """Whether every word is literal and every program was found, so that a rule about words is
    reliable."""
    checks: tuple[CheckPart, ...] = ()
    """The parts that check the project: tests, types, style, a build."""
    exit_one_is_answer: bool = False
    """Whether its exit status 1 is an answer and no failure, as that of `grep`."""

    @property
    def risk(self) -> Risk:
        return worst(part.risk for part in self.parts)

    @property
    def only_edits(self) -> bool:
        """Whether it only reads and changes files."""
        edits = ("safe", "write", "destructive")
        return self.known and all(part.risk in edits for part in self.parts)

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The files and folders that it reads; None for a line that could read any file: git shows
        contents without naming files."""
        reads = tuple(path for part in self.parts for path in part.reads)
        by_git = any(part.argv is None or part.argv[0] == "git" for part in self.parts)
        return reads if reads and self.only_reads and not by_git else None

    @property
    def writes(self) -> tuple[str, ...]:
        """The files and folders that it names to write."""
        return tuple(dict.fromkeys(path for part in self.parts for path in part.writes))


def worst(risks: Iterable[Risk]) -> Risk:
    """The worst of some risks; `safe` for none."""
    return max(risks, key=ORDER.index, default="safe")
