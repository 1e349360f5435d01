"""The forms of a goal for programs, from which `kode schema goal` is made: `goal` in the result of
a task, and the `value` of the notices of a goal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class File:
    path: str
    added: int
    removed: int


@dataclass(frozen=True, kw_only=True)
class Attempt:
    attempt: int
    turn: int
    files: list[File]
    passed: bool
    exit_status: int | None
    fault: str
    output: str
    restored: list[str]
    differing: list[str]
    unread: list[str]
    requests: int
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Used:
    requests: int
    usd: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Goal:
    text: str
    verify: str
    status: Literal["unfinished", "reached", "not_reached", "stalled", "out_of_budget"]
    protected: list[str]
    attempts: list[Attempt]
    spent: Used
    limits: Mapping[Literal["requests", "usd", "seconds"], float]


@dataclass(frozen=True, kw_only=True)
class GoalNotice(Goal):
    type: Literal["goal"]


@dataclass(frozen=True, kw_only=True)
class AttemptNotice(Attempt):
    type: Literal["goal_attempt"]


@dataclass(frozen=True, kw_only=True)
class CheckNotice:
    """The check passes before anything has changed."""

    type: Literal["goal_check"]
    passed: Literal[True]


FORMS = CheckNotice | Goal | GoalNotice | AttemptNotice
