"""A session as an ATIF trajectory: the Agent Trajectory Interchange Format, which Harbor and tools
around it read.

It includes what a compaction or trim hides from the model, but nothing rewound. Subagents are
nested trajectories; pictures are described, not embedded.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kode import paths
from kode.broken_json import object_of
from kode.errors import KodeError, SessionError
from kode.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage, images_of, text_of
from kode.session.entries import AnyEntry, CompactionEntry, Header, MessageEntry, SystemEntry
from kode.session.messages import effective
from kode.session.reading import read
from kode.session.spending import spending_of, total

VERSION = "ATIF-v1.7"
"""The oldest version with all the fields used here, so that most readers accept it."""

OUTSIDE_STEPS = (
    "The final metrics include requests that are no step: of memory, compactions and subagents, "
    "and of what was rewound."
)


Document = dict[str, Any]


def read_trajectory(path: Path, version: str) -> Document:
    """The document of `kode session export --format atif`: the session in a file with its
    subagents; `version` is the agent's.

    Raises: SessionError, as `as_trajectory`, and for a file of a newer kode; StorageError.
    """
    header, entries, _ = read(path)
    return as_trajectory(header, entries, version, _children(path.with_suffix(""), version))


def _children(folder: Path, version: str) -> dict[str, list[Document]]:
    """Subagents recorded in the folder of a session or another subagent: the call that started them
    → their trajectories, oldest first. Unreadable ones are left out."""
    found: dict[str, list[Document]] = {}
    for transcript in sorted(paths.agents_folder(folder).glob("*/transcript.jsonl")):
        own, call = transcript.parent, ""
        with contextlib.suppress(OSError):
            call = str((object_of((own / "agent.json").read_bytes()) or {}).get("call_id", ""))
        with contextlib.suppress(KodeError):
            header, entries, _ = read(transcript)
            document = as_trajectory(header, entries, version, _children(own, version))
            found.setdefault(call, []).append({**document, "trajectory_id": own.name})
    return found


def as_trajectory(
    header: Header,
    entries: Sequence[AnyEntry],
    version: str,
    children: Mapping[str, Sequence[Document]] = {},
) -> Document:
    """A trajectory of these entries; `children` are those of subagents, by the call that started
    them.

    Raises: SessionError if there is no message: ATIF has no trajectory without steps.
    """
    steps: list[dict[str, Any]] = []
    waiting: dict[str, dict[str, Any]] = {}
    for entry in effective(entries):
        match entry:
            case MessageEntry(role="tool"):
                _add_results(waiting, entry, children)
                continue
            case MessageEntry(role="assistant"):
                what = _reply(entry)
            case MessageEntry():
                what = _message(entry)
            case SystemEntry():
                what = {"source": "system", "message": entry.text}
            case CompactionEntry():
                what = _compaction(entry)
            case _:
                continue
        step = {"step_id": len(steps) + 1, "timestamp": entry.at, **what}
        steps.append(step)
        waiting.update((call["tool_call_id"], step) for call in step.get("tool_calls", ()))
    if not steps:
        raise SessionError(f"Session {header.id} has no message yet: there is nothing to export.")
    spent = total(spending_of(entries))
    document: Document = {
        "schema_version": VERSION,
        "session_id": header.id,
        "agent": {
            "name": "kode",
            "version": version,
            "model_name": header.model,
            "extra": {"provider": header.provider, "cwd": header.cwd},
        },
        "steps": steps,
        "final_metrics": {
            **_tokens("total_", spent.usage),
            **({"total_cost_usd": round(spent.cost_usd, 6)} if not spent.unpriced else {}),
            "total_steps": len(steps),
        },
    }
    if spent.requests > sum(step["source"] == "agent" for step in steps):
        document["notes"] = OUTSIDE_STEPS
    if children:
        document["subagent_trajectories"] = [one for some in children.values() for one in some]
    return document


def _message(message: Message) -> dict[str, Any]:
    """A person's message with kode's additions; a message of kode alone becomes the system's."""
    added = [part for part in message.parts if isinstance(part, Text) and part.source]
    words = [text_of(message), *(f"[image: {p.description}]" for p in images_of(message))]
    own = "\n".join(word for word in words if word)
    if not own:
        return {"source": "system", "message": "\n".join(part.text for part in added)}
    beside = [{"source": part.source, "text": part.text} for part in added]
    return {"source": "user", "message": own, **({"extra": {"added": beside}} if beside else {})}


def _reply(entry: MessageEntry) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": text_of(entry), "llm_call_count": 1}
    if entry.model:
        step["model_name"] = entry.model
    if thoughts := [p.text for p in entry.parts if isinstance(p, Thinking) and p.text]:
        step["reasoning_content"] = "\n".join(thoughts)
    if calls := [_call(part) for part in entry.parts if isinstance(part, ToolCall)]:
        step["tool_calls"] = calls
    if entry.usage is not None:
        cost = {} if entry.cost_usd is None else {"cost_usd": entry.cost_usd}
        step["metrics"] = {**_tokens("", entry.usage), **cost}
    if entry.stop is not None:
        step["extra"] = {"stop": entry.stop}
    return step


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = object_of(call.arguments)
    if arguments is None:  # ATIF allows only an object
        arguments = {"raw": call.arguments}
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}


def _add_results(
    waiting: dict[str, dict[str, Any]],
    message: Message,
    children: Mapping[str, Sequence[Document]],
) -> None:
    """Puts results into the steps of their calls, as ATIF requires, however late they came. A
    result without a call is dropped."""
    for part in message.parts:
        if isinstance(part, ToolResult) and (step := waiting.pop(part.call_id, None)):
            result: dict[str, Any] = {"source_call_id": part.call_id, "content": part.text}
            if part.is_error:
                result["extra"] = {"is_error": True}
            if ids := [
                {"trajectory_id": c["trajectory_id"]} for c in children.get(part.call_id, ())
            ]:
                result["subagent_trajectory_ref"] = ids
            step.setdefault("observation", {"results": []})["results"].append(result)


def _compaction(entry: CompactionEntry) -> dict[str, Any]:
    about = {"type": "compaction", "boundary": "replace", "tokens_before": entry.tokens_before}
    return {
        "source": "system",
        "message": entry.summary,
        "extra": {"context_management": about},
    }


def _tokens(prefix: str, usage: Usage) -> dict[str, int]:
    return {
        f"{prefix}prompt_tokens": usage.input_tokens,
        f"{prefix}completion_tokens": usage.output_tokens,
        f"{prefix}cached_tokens": usage.cached_tokens,
    }
