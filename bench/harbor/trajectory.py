"""A session as an ATIF trajectory: the Agent Trajectory Interchange Format, which Harbor and tools
around it read.

It includes what a compaction or trim hides from the model, but nothing rewound. Subagents are
nested trajectories; pictures are described, not embedded.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kode import paths
from kode.broken_json import object_of
from kode.errors import KodeError, SessionError
from kode.messages import Text, Thinking, ToolResult, Usage, images_of, text_of
from kode.session import spending
from kode.session.entries import CompactionEntry, MessageEntry, SystemEntry
from kode.session.transcript import Item, PastCall, Transcript

AGENTS_FILE = "transcript.jsonl"
"""The session of a subagent, in its folder."""
VERSION = "ATIF-v1.7"
"""The oldest version with all the fields used here, so that most readers accept it."""

OUTSIDE_STEPS = (
    "The final metrics include requests that are no step: of memory, compactions and subagents, "
    "and of what was rewound."
)


Document = dict[str, Any]
Children = Mapping[str, Sequence[Document]]
"""The trajectories of subagents, by the call that started them."""


def trajectory_of(transcript: Transcript, version: str) -> Document:
    """The trajectory of a session with its subagents; `version` is the agent's.

    Raises: SessionError if there is no message: ATIF has no trajectory without steps.
    """
    header = transcript.header
    children: dict[str, list[Document]] = {}
    for call, agent in subagents(transcript):
        children.setdefault(call, []).extend(_nested(agent, version))
    steps: list[Document] = []
    for item in transcript.items:
        what = None if item.is_rewound else _step(item, children)
        if what is not None:
            steps.append({"step_id": len(steps) + 1, "timestamp": item.entry.at, **what})
    if not steps:
        raise SessionError(f"Session {header.id} has no message yet: there is nothing to export.")
    spent = spending.Spending.of(transcript.entries).total
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


def subagents(transcript: Transcript) -> Iterator[tuple[str, Transcript]]:
    """Those recorded beside a session's file, by their folders' names: the call that started each,
    and its session. Unreadable ones are left out."""
    if (path := transcript.path) is None:
        return
    # A subagent's own are in its folder, a session's in the folder of its name.
    folder = path.parent if path.name == AGENTS_FILE else path.with_suffix("")
    for file in sorted(paths.agents_folder(folder).glob(f"*/{AGENTS_FILE}")):
        data = b""
        with contextlib.suppress(OSError):
            data = (file.parent / "agent.json").read_bytes()
        with contextlib.suppress(KodeError):
            yield str((object_of(data) or {}).get("call_id", "")), Transcript.read(file)


def _nested(agent: Transcript, version: str) -> Iterator[Document]:
    """Its trajectory, if something was said in it."""
    if agent.path is not None:
        with contextlib.suppress(SessionError):
            yield {**trajectory_of(agent, version), "trajectory_id": agent.path.parent.name}


def _step(item: Item, children: Children) -> Document | None:
    """None for an entry that is no step."""
    match item.entry:
        case MessageEntry(role="assistant") as entry:
            return _reply(entry, item.calls, children)
        case MessageEntry() as entry:
            return _message(entry)
        case SystemEntry() as entry:
            return {"source": "system", "message": entry.text}
        case CompactionEntry() as entry:
            return _compaction(entry)
        case _:
            return None


def _message(message: MessageEntry) -> Document:
    """A person's message with kode's additions; a message of kode alone becomes the system's."""
    added = [part for part in message.parts if isinstance(part, Text) and part.source]
    words = [text_of(message), *(f"[image: {p.description}]" for p in images_of(message))]
    own = "\n".join(word for word in words if word)
    if not own:
        return {"source": "system", "message": "\n".join(part.text for part in added)}
    beside = [{"source": part.source, "text": part.text} for part in added]
    return {"source": "user", "message": own, **({"extra": {"added": beside}} if beside else {})}


def _reply(entry: MessageEntry, calls: Sequence[PastCall], children: Children) -> Document:
    step: Document = {"source": "agent", "message": text_of(entry), "llm_call_count": 1}
    if entry.model:
        step["model_name"] = entry.model
    if thoughts := [p.text for p in entry.parts if isinstance(p, Thinking) and p.text]:
        step["reasoning_content"] = "\n".join(thoughts)
    if calls:
        step["tool_calls"] = list(map(_call, calls))
    if results := [_result(call.result, children) for call in calls if call.result]:
        step["observation"] = {"results": results}
    if entry.usage is not None:
        cost = {} if entry.cost_usd is None else {"cost_usd": entry.cost_usd}
        step["metrics"] = {**_tokens("", entry.usage), **cost}
    if entry.stop is not None:
        step["extra"] = {"stop": entry.stop}
    return step


def _call(made: PastCall) -> Document:
    call = made.call
    arguments = object_of(call.arguments)
    if arguments is None:  # ATIF allows only an object
        arguments = {"raw": call.arguments}
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}


def _result(result: ToolResult, children: Children) -> Document:
    shown: Document = {"source_call_id": result.call_id, "content": result.text}
    if result.is_error:
        shown["extra"] = {"is_error": True}
    if agents := children.get(result.call_id):
        shown["subagent_trajectory_ref"] = [
            {"trajectory_id": agent["trajectory_id"]} for agent in agents
        ]
    return shown


def _compaction(entry: CompactionEntry) -> Document:
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
