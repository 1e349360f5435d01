"""The classes of shell commands and the values that carry them. No judgment is made here."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

ShellClass = Literal["safe", "write", "network", "unknown", "system", "destructive"]
"""What a command would do, from harmless to worst.

`safe` reads the project and prints. `write` changes files inside the working directory or the
temporary folder. `network` talks to other machines. `unknown` could do anything. `system` changes
the machine, plants what runs later, or reads secrets. `destructive` loses what cannot be had back.
"""

ORDER: tuple[ShellClass, ...] = ("safe", "write", "network", "unknown", "system", "destructive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Files that a command reads without naming them: a glob, or all below a folder."""

    path: str
    """Absolute; a folder, a file, or a glob of such."""
    deep: bool = False
    """Whether what lies below is read, too."""
    names: str = ""
    """With `deep`: a glob that the names of what is read match; "" for any."""
    hidden: bool = True
    """With `deep`: whether names that begin with a dot are read."""
    ignored: bool = True
    """With `deep`: whether what `.gitignore` names is read."""
    without: tuple[str, ...] = ()
    """With `deep`: globs of names that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What something in a command line would do."""

    klass: ShellClass
    reason: str
    development: bool = False
    """True for an `unknown` that is the project's own test, lint, type check or build."""
    secret: bool = False
    """Whether it reads a file that holds keys."""
    protected: bool = False
    """Whether it writes in a folder that kode keeps for itself."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Absolute paths, where they are known."""
    sweeps: tuple[Sweep, ...] = ()
    """What it reads without naming it."""
    discards: tuple[str, ...] = ()
    """Absolute paths of folders in which it loses work that is in no commit."""
    remote: bool = False
    """Whether it is known to talk to other machines, `network` or worse."""


_EFFECT = tuple(field.name for field in fields(Effect))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartClass(Effect):
    """One command of a command line, or one of its redirections or assignments."""

    text: str
    """As written, or the argv joined where it was built."""
    argv: tuple[str, ...] | None
    """None when the words are not fixed text, and for parts that are no command."""


def part_of(effect: Effect, text: str, argv: tuple[str, ...] | None) -> PartClass:
    """The part of a command line that has an effect."""
    return PartClass(text=text, argv=argv, **{name: getattr(effect, name) for name in _EFFECT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A whole command line: the worst of its parts."""

    klass: ShellClass
    parts: tuple[PartClass, ...]
    reason: str


def worst(classes: Iterable[ShellClass]) -> ShellClass:
    """The worst of some classes; `safe` for none."""
    return max(classes, key=ORDER.index, default="safe")


def whole(parts: Iterable[PartClass]) -> Classified:
    """The class of a command line from its parts; its reason is that of the worst."""
    found = tuple(parts)
    if not found:
        return Classified(klass="safe", parts=(), reason="nothing to run")
    heaviest = max(found, key=lambda part: ORDER.index(part.klass))
    return Classified(klass=heaviest.klass, parts=found, reason=heaviest.reason)
