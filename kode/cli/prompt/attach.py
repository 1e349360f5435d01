"""Attaches what a message names, images and lists of folders, and reports it.

`keys` handles pasting; `pictures` finds images, `folders` lists folders.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.prompt.folders import Folder, mentioned_folders
from kode.cli.prompt.mentions import mentions
from kode.cli.prompt.pictures import mentioned_pictures
from kode.errors import UserError
from kode.images import Picture, fitting

if TYPE_CHECKING:
    from kode.cli.screen.screen import Screen
    from kode.conversation import Conversation


async def attach(
    conversation: "Conversation", screen: "Screen", text: str, pasted: Sequence[Picture]
) -> None:
    """Attaches pasted images, those named in quotes, and what is named after `@`, to the next turn.
    What cannot be attached is reported, and the message is sent without it. Raises:
    StorageError."""
    named, folders = await asyncio.to_thread(read_mentioned, text, conversation.place.cwd)
    fits = [(picture, await _fitting(picture, screen)) for picture in (*pasted, *named)]
    # No await from here on: stopping earlier must not leave anything attached to another message.
    for picture, fit in fits:
        if fit is not None:
            _attach(conversation, screen, fit, "" if fit is picture else ", made smaller")
    for folder in folders:
        conversation.attachments.append(folder.text)
        screen.print(f"with a list of the {folder.summary}", "dim")


def read_mentioned(text: str, cwd: Path) -> tuple[list[Picture], list[Folder]]:
    """What a message names that is sent with it: images, and lists of folders below `cwd`. Any
    other file is left to the model, which reads it as the permissions allow."""
    if not set("@\"'") & set(text):
        return [], []
    return list(mentioned_pictures(text, cwd)), list(mentioned_folders(text, cwd))


def names_attachment(text: str, cwd: Path) -> bool:
    """Whether `attach` would attach something that this message names."""
    pictures = mentioned_pictures(text, cwd)
    folders = (os.path.isdir(cwd / paths.expand(name)) for name in mentions(text))
    return next(pictures, None) is not None or any(folders)


async def _fitting(picture: Picture, screen: "Screen") -> Picture | None:
    try:
        return await asyncio.to_thread(fitting, picture)
    except UserError as error:
        screen.print(str(error), "warning")
        return None


def _attach(conversation: "Conversation", screen: "Screen", picture: Picture, note: str) -> None:
    try:
        image = conversation.attach_picture(picture.name, picture.data)
        screen.print(f"with the image {image.description}{note}", "dim")
    except UserError as error:
        screen.print(str(error), "warning")
