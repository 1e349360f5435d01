"""Converts a session on disk to updates of its full history, for a client that loads it."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from acp.helpers import image_block, text_block, update_tool_call, update_user_message
from acp.schema import ImageContentBlock, TextContentBlock

from kode.plugin import Image, Text, Thinking, Transcript
from kode.plugins.acp import updates as to_update
from kode.plugins.acp.calls import text_content
from kode.plugins.acp.updates import MAX_RESULT_CHARS, Update, Updates

_ATTACHED = re.compile(r'<(?:file|folder) path="([^"\n]*)">')


def history(transcript: Transcript, updates: Updates) -> Iterator[Update]:
    """Everything not rewound, oldest first; then the current plan and title. `updates` are those of
    the loaded session."""
    last_plan: Update | None = None
    first_words = ""
    for message, item in transcript.messages:
        for part in item.parts:
            match part:
                case Text(source="" | "steering") if message.role == "user":
                    first_words = first_words or part.text
                    yield _of_person(text_block(part.text), message.id)
                case Text(source="" | "steering"):
                    yield to_update.message(part.text, message.id)
                case Text(source="attachment" | "outside"):
                    for name in _ATTACHED.findall(part.text)[:1]:
                        yield _of_person(text_block(f"[attached: {name}]\n"), message.id)
                case Thinking(text=text) if text:
                    yield to_update.make_thought(text, message.id)
                case _ if part.type == "call":
                    call, answer = part.call, part.answer
                    yield updates.start(call)
                    shown = updates.calls.pop(call.id)
                    is_edit = shown.start.kind == "edit" and not answer.is_error
                    result = text_content(answer.text[:MAX_RESULT_CHARS])
                    yield update_tool_call(
                        call.id,
                        status="failed" if answer.is_error else "completed",
                        content=None if is_edit else [result],  # an edit shows its old and new text
                    )
                    if shown.name == "todo" and not answer.is_error:
                        last_plan = to_update.todo_update(shown)
                case Image() if message.role == "user":
                    yield _of_person(_picture(part), message.id)
    plans = (item for item in transcript.items if item.entry.type == "plan" and not item.is_rewound)
    if last_plan is None and any(plans):
        last_plan = to_update.plan_update(updates.plan_steps())
    if last_plan is not None:
        yield last_plan
    if first_words:
        updates.titled = True
        yield to_update.info_update(transcript.entries[-1].at, first_words)


def _of_person(content: TextContentBlock | ImageContentBlock, message_id: str) -> Update:
    return update_user_message(content).model_copy(update={"message_id": message_id or None})


def _picture(image: Image) -> TextContentBlock | ImageContentBlock:
    try:
        data = Path(image.kept_in).read_bytes()
    except OSError:
        return text_block(f"[image: {image.name}]\n")
    return image_block(base64.b64encode(data).decode(), image.media_type)
