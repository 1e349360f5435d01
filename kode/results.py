"""The result of a task for programs: `kode run --output-format json`, and clients of `kode mcp
serve`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    warnings: list[str]
    structured: Any
    goal: Mapping[str, Any] | None
    duration_ms: int


@dataclass(frozen=True, kw_only=True)
class ResultLine(Result):
    """The last line of a task's event stream."""

    type: Literal["result"] = "result"


def result_object(
    ended: TurnEnded,
    session_id: str | None,
    cwd: Path,
    *,
    untrusted: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """The result of one task. Changed files inside `cwd` are relative to it; `untrusted` names what
    the repository brings and nobody has approved, `warnings` is what a person would have read."""
    values = asdict(ended) | {"session_id": session_id}
    values |= {"untrusted": untrusted, "warnings": warnings}
    values["usage"] = {name: values["usage"][name] for name in Tokens.__annotations__}
    values["files_changed"] = [relative_path(path, cwd) for path in ended.files_changed]
    for name in ("denials", "refused", "checks", "untrusted", "warnings"):
        values[name] = list(values[name])
    return {name: values[name] for name in Result.__annotations__}


def relative_path(path: str, cwd: Path) -> str:
    """`path` relative to `cwd` if it is inside, else absolute; of a folder with "/" at its end."""
    if not Path(path).is_relative_to(cwd):
        return path
    return os.path.relpath(path, cwd) + "/" * path.endswith("/")
