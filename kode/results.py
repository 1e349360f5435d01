"""The result of a task for programs: `kode run --output-format json`, and clients of `kode mcp
serve`."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kode.errors import Setting
from kode.events import Check, Checked, Denial, Status, TurnEnded


@dataclass(frozen=True, kw_only=True)
class Tokens:
    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one task; docs/scripts.md explains each field."""

    status: Status
    result: str
    error: str | None
    setting: Setting | None
    session_id: str | None
    steps: int
    usage: Tokens
    cost_usd: float | None
    files_changed: list[str]
    denials: list[Denial]
    refused: list[Denial]
    checks: list[Check]
    checked: Checked
    fallback_model: str | None
    untrusted: list[str]
    structured: Any
    goal: Mapping[str, Any] | None
    duration_ms: int


@dataclass(frozen=True, kw_only=True)
class ResultLine(Result):
    """The last line of a task's event stream."""

    type: Literal["result"] = "result"


def result_object(
    ended: TurnEnded, session_id: str | None, cwd: Path, untrusted: Sequence[str] = ()
) -> dict[str, Any]:
    """The result of one task. Changed files inside `cwd` are relative to it; `untrusted` names what
    the repository brings and nobody has approved."""
    usage = ended.usage
    result = Result(
        status=ended.status,
        result=ended.result,
        error=ended.error,
        setting=ended.setting,
        session_id=session_id,
        steps=ended.steps,
        usage=Tokens(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
        ),
        cost_usd=ended.cost_usd,
        files_changed=[relative_path(path, cwd) for path in ended.files_changed],
        denials=list(ended.denials),
        refused=list(ended.refused),
        checks=list(ended.checks),
        checked=ended.checked,
        fallback_model=ended.fallback_model,
        untrusted=list(untrusted),
        structured=ended.structured,
        goal=ended.goal,
        duration_ms=ended.duration_ms,
    )
    return dataclasses.asdict(result)


def relative_path(path: str, cwd: Path) -> str:
    """`path` relative to `cwd` if it is inside, else absolute; of a folder with "/" at its end."""
    if not Path(path).is_relative_to(cwd):
        return path
    return os.path.relpath(path, cwd) + "/" * path.endswith("/")
