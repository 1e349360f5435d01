"""Which pictures go with a message of the REPL, and what is said of those that cannot."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.pictures import Picture, mentioned_pictures
from kode.errors import UserError
from kode.images import checked, told

if TYPE_CHECKING:
    from kode.cli.desk import Desk


def take_pictures(desk: "Desk", pictures: Sequence[Picture]) -> None:
    """Puts the words for pasted pictures into the line, unless they are too large or the model is
    known to be blind."""
    assert desk.editor is not None
    provider = desk.opened.agent.provider if desk.opened is not None else None
    if provider is not None and provider.info.sees_images is False:
        desk.hint(f"{provider.model} cannot look at pictures. /model NAME uses one that can.")
        return
    try:
        for picture in pictures:
            checked(picture.name, picture.data)
    except UserError as error:
        desk.hint(str(error))
        return
    desk.editor.buffer.insert_text(" ".join(map(desk.editor.pastes.add_picture, pictures)))


async def attach_pictures(desk: "Desk", text: str) -> None:
    """Lets the pictures that were pasted or are named after `@` go with the next turn. One that
    cannot go is told, and the message goes without it. Raises: StorageError."""
    pasted = desk.editor.pastes.pictures_in(text) if desk.editor is not None else []
    if not pasted and "@" not in text:
        return
    cwd = desk.conversation.cwd
    named = await asyncio.to_thread(lambda: list(mentioned_pictures(text, cwd)))
    for picture in (*pasted, *named):
        try:
            image = desk.conversation.attach_picture(picture.name, picture.data)
            desk.screen.print(f"with the picture {told(image)}", "dim")
        except UserError as error:
            desk.screen.print(str(error), "warning")
