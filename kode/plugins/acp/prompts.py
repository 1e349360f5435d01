"""Converts a client's prompt to one message: text, links, embedded files and images.

Anything linked or embedded from outside the working folders is outside text, as with `kode run
--ctx`.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema

from kode.plugin import Conversation, Text, UserError, read_mentioned

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


@dataclass
class ClientMessage:
    """A prompt as kode takes it."""

    text: str = ""
    attachments: list[Text] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    """Each with a name."""

    def add_words(self, words: str) -> None:
        """Adds a piece of the text; a link may stand in the middle of a sentence."""
        is_apart = re.search(r"(?:^|[\s(\[\"'`])$", self.text) or re.match(
            r"[\s.,;:!?)\]\"'`]", words
        )
        self.text += words if is_apart else f" {words}"

    def add_picture(self, uri: str | None, data: str) -> None:
        """Raises: UserError for what is no base64 data."""
        link = os.path.basename(unquote(urlsplit(uri or "").path))
        name = link or f"image-{len(self.pictures) + 1}"
        try:
            self.pictures.append((name, base64.b64decode(data, validate=True)))
        except (binascii.Error, ValueError) as error:
            raise UserError(f"{name} is not base64 data, so the model cannot see it.") from error


def read_prompt(blocks: Sequence[Block], conversation: Conversation) -> ClientMessage:
    """Converts a prompt. Reads linked files: call it in a thread.

    Raises: UserError for unsupported content, or an empty prompt.
    """
    message, cwd = ClientMessage(), conversation.place.cwd
    for block in blocks:
        if isinstance(block, schema.TextContentBlock):
            message.add_words(block.text)
        elif isinstance(block, schema.ImageContentBlock):
            message.add_picture(block.uri, block.data)
        elif isinstance(block, schema.AudioContentBlock):
            raise UserError("kode cannot listen to audio. Send the words as text.")
        elif isinstance(block, schema.ResourceContentBlock):
            message.add_words(_mention(block.uri, cwd))
            if (path := path_of(block.uri)) is not None:  # as a file after `@` at the terminal
                quoted = json.dumps(str(path), ensure_ascii=False)
                pictures = read_mentioned(f"@{quoted}", cwd)
                message.pictures += ((picture.name, picture.data) for picture in pictures)
        else:
            resource = block.resource
            message.add_words(_mention(resource.uri, cwd))
            if isinstance(resource, schema.TextResourceContents):
                message.attachments.append(_read_embedded(resource, conversation))
            elif (resource.mime_type or "").startswith("image/"):
                message.add_picture(resource.uri, resource.blob)
            else:
                raise UserError(
                    f"{_mention(resource.uri, cwd)} is neither text nor an image, so it cannot be "
                    "sent. Name its path instead."
                )
    message.text = message.text.strip()
    if not message.text and not message.attachments and not message.pictures:
        raise UserError("The prompt is empty: say what kode should do.")
    message.text = message.text or "Look at the attachments."
    return message


def path_of(uri: str) -> Path | None:
    """The path of a file URI; None for other URIs."""
    parts = urlsplit(uri)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return Path(unquote(parts.path)) if is_file else None


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


def _read_embedded(resource: schema.TextResourceContents, conversation: Conversation) -> Text:
    path = path_of(resource.uri)
    name = f"{path}{_part_of(resource.uri)}" if path is not None else resource.uri
    return conversation.quote_file(name, resource.text, path)
