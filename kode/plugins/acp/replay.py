"""Converts a session on disk to updates of its full history, for a client that loads it."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from acp.schema import AgentPlanUpdate, ImageContentBlock, UserMessageChunk

from kode.plugin import (
    Image,
    PlanEntry,
    Text,
    Thinking,
    ToolResult,
    Transcript,
    TranscriptCall,
    read_plan,
)
from kode.plugins.acp import updates as to_update
from kode.plugins.acp.calls import text_content
from kode.plugins.acp.updates import MAX_RESULT_CHARS, Update, Updates, block

_ATTACHED = re.compile(r'<(?:file|folder) path="([^"\n]*)">')


def history(transcript: Transcript, updates: Updates, plan: Path | None) -> Iterator[Update]:
    """Everything not rewound, oldest first; then the current plan and title. `updates` are those of
    the loaded session."""
    last_plan: AgentPlanUpdate | None = None
    first_words = ""
    for message, item in transcript.messages:
        key = message.id
        for part in item.parts:
            match part:
                case Text(source="" | "steering"):
                    if message.role == "user":
                        first_words = first_words or part.text
                        yield _of_person(part.text, key)
                    else:
                        yield to_update.message(part.text, key)
                case Text(source="attachment" | "outside"):
                    for name in _ATTACHED.findall(part.text)[:1]:
                        yield _of_person(f"[attached: {name}]\n", key)
                case Thinking(text=text) if text:
                    yield to_update.thought(text, key)
                case TranscriptCall(call=call, answer=answer):
                    yield updates.start(call)
                    shown = updates.calls.pop(call.id)
                    yield _result(answer)
                    if shown.name == "todo" and not answer.is_error:
                        last_plan = to_update.todo_update(shown)
                case Image() if message.role == "user":
                    yield from _picture(part, key)
                case _:
                    pass
    if last_plan is None and any(
        isinstance(one.entry, PlanEntry) and one.gone != "rewound" for one in transcript.items
    ):
        last_plan = to_update.plan_update(read_plan(plan))
    if last_plan is not None:
        yield last_plan
    if first_words:
        updates.titled = True
        yield to_update.title_update(first_words, transcript.entries[-1].at)


def _of_person(text: str, key: str) -> UserMessageChunk:
    return UserMessageChunk(
        session_update="user_message_chunk", content=block(text), message_id=key or None
    )


def _result(result: ToolResult) -> Update:
    changed: dict[str, object] = {"status": "failed" if result.is_error else "completed"}
    edited = result.name in ("edit_file", "write_file") and not result.is_error
    if not edited:  # an edit shows its old and new text
        changed["content"] = [text_content(result.text[:MAX_RESULT_CHARS])]
    return to_update.progress(result.call_id, **changed)


def _picture(image: Image, key: str) -> Iterator[Update]:
    try:
        data = Path(image.kept_in).read_bytes()
    except OSError:
        yield _of_person(f"[image: {image.name}]\n", key)
        return
    content = ImageContentBlock(
        type="image", data=base64.b64encode(data).decode(), mime_type=image.media_type
    )
    yield UserMessageChunk(
        session_update="user_message_chunk", content=content, message_id=key or None
    )
