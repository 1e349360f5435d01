"""Temporary shim until the table lands."""

from dataclasses import dataclass
from pathlib import Path

from kode.permissions.shell.classes import ShellClass as Risk
from kode.permissions.shell.classes import worst
from kode.permissions.shell.walk import MAX_PARTS, classify
from kode.permissions.shell.words import FOUND, UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    text: str
    argv: tuple[str, ...] | None
    risk: Risk
    reason: str
    undo: str = ""
    offer: tuple[str, ...] = ()
    secret: bool = False
    protected: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    parts: tuple[Part, ...]
    closed: bool
    known: bool

    @property
    def risk(self) -> Risk:
        return worst(p.risk for p in self.parts)


def judge(command, where):
    c = classify(
        command,
        cwd=Path(where.cwd),
        roots=tuple(map(Path, where.roots)),
        home=Path(where.home),
        protected=tuple(map(Path, where.protected)),
        temp=tuple(map(Path, where.temp)),
    )
    parts = tuple(
        Part(
            text=p.text,
            argv=p.argv,
            risk=p.klass,
            reason=p.reason,
            secret=p.secret,
            protected=p.protected,
            reads=p.reads,
            writes=p.writes,
            offer=(p.argv[:2] if p.argv and p.development else ()),
        )
        for p in c.parts
    )
    return Line(parts=parts, closed=c.klass == "safe", known=all(p.argv is not None for p in parts))
