"""Converts a client's prompt to one message: text, links, embedded files and images.

Anything linked or embedded from outside the working folders is outside text, as with `kode run
--ctx`.
"""

import base64
import binascii
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from kode.plugin import (
    MAX_ATTACHED_BYTES,
    Conversation,
    Picture,
    Text,
    UserError,
    file_part,
    read_mentioned,
    write_mention,
)

Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)

NOTHING_SAID = "Look at the attachments."


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt as kode takes it."""

    text: str
    attachments: tuple[Text, ...] = ()
    pictures: tuple[Picture, ...] = ()


def read_prompt(blocks: Sequence[Block], conversation: Conversation) -> Prompt:
    """Converts a prompt. Reads linked files: call it in a thread.

    Raises: UserError for unsupported content, or an empty prompt.
    """
    words: list[str] = []
    attachments: list[Text] = []
    pictures: list[Picture] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                words.append(block.text)
            case ImageContentBlock():
                name = _name_of(block.uri) or f"image-{len(pictures) + 1}"
                pictures.append(Picture(name, _decode(block.data, name)))
            case AudioContentBlock():
                raise UserError("kode cannot listen to audio. Send the words as text.")
            case ResourceContentBlock():
                words.append(_mention(block.uri, conversation.cwd))
                linked, folders = _read_link(block.uri, conversation.cwd)
                pictures += linked
                attachments += folders
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                words.append(_mention(resource.uri, conversation.cwd))
                attachments.append(_read_embedded(resource, conversation))
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as resource):
                words.append(_mention(resource.uri, conversation.cwd))
                name = _name_of(resource.uri) or "a file"
                if not (resource.mime_type or "").startswith("image/"):
                    raise UserError(
                        f"{name} is neither text nor an image, so it cannot be sent. "
                        "Name its path instead."
                    )
                pictures.append(Picture(name, _decode(resource.blob, name)))
    text = _join(words).strip()
    if not text and not attachments and not pictures:
        raise UserError("The prompt is empty: say what kode should do.")
    return Prompt(
        text=text or NOTHING_SAID, attachments=tuple(attachments), pictures=tuple(pictures)
    )


def words_of(blocks: Sequence[Block]) -> str | None:
    """The text of a prompt that is words for the model alone; None for one with attachments, or
    with a command."""
    words = [block.text for block in blocks if isinstance(block, TextContentBlock)]
    text = _join(words).strip()
    if len(words) < len(blocks) or not text:
        return None
    is_path = "/" in text[1:].partition(" ")[0]
    return None if text.startswith("/") and "\n" not in text and not is_path else text


def path_of(uri: str) -> Path | None:
    """The path of a file URI; None for other URIs."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))


def _mention(uri: str, cwd: Path) -> str:
    """How a message refers to an attachment: `@src/a.py`, where a client put it."""
    path = path_of(uri)
    if path is None or not unquote(uri).isprintable():
        return uri  # a file name must not read like a sentence of the person's
    name = os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)
    return f"@{name}{_part_of(uri)}"


def _part_of(uri: str) -> str:
    """The part of a file that is meant, as the client wrote it: `#L10:20`."""
    fragment = urlsplit(uri).fragment
    return f"#{unquote(fragment)}" if fragment else ""


def _read_link(uri: str, cwd: Path) -> tuple[list[Picture], list[Text]]:
    """What a link sends with the message: as a file after `@` at the terminal."""
    path = path_of(uri)
    if path is None:
        return [], []
    pictures, folders = read_mentioned(f"@{write_mention(str(path))}", cwd)
    return pictures, [folder.text for folder in folders]


def _read_embedded(resource: TextResourceContents, conversation: Conversation) -> Text:
    if len(resource.text) > MAX_ATTACHED_BYTES:
        raise UserError(
            f"{resource.uri} has more than {MAX_ATTACHED_BYTES // 1024} KB. Link to it instead, so "
            "that kode reads the parts it needs."
        )
    path = path_of(resource.uri)
    name = f"{path}{_part_of(resource.uri)}" if path is not None else resource.uri
    roots, marks = conversation.agent.place.roots, conversation.agent.marks
    return file_part(name, resource.text, path, roots, marks)


def _join(words: Sequence[str]) -> str:
    """Joins the pieces of a message; a link may stand in the middle of a sentence."""
    text = ""
    for word in words:
        glued = re.search(r"(?:^|[\s(\[\"'`])$", text) or re.match(r"[\s.,;:!?)\]\"'`]", word)
        text += word if glued else f" {word}"
    return text


def _name_of(uri: str | None) -> str:
    return os.path.basename(unquote(urlsplit(uri or "").path))


def _decode(data: str, name: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"{name} is not base64 data, so the model cannot see it.") from error
