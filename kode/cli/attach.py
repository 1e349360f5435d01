"""Which pictures go with a message of the REPL, and what is said of those that cannot.

How a picture is pasted is `keys`; where pictures come from is `pictures`.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.pictures import Picture, mentioned_pictures
from kode.cli.screen import Screen
from kode.errors import UserError
from kode.images import told

if TYPE_CHECKING:
    from kode.conversation import Conversation


async def attach_pictures(
    conversation: "Conversation", screen: Screen, text: str, pasted: Sequence[Picture]
) -> None:
    """Lets the pictures that were pasted or are named after `@` go with the next turn. One that
    cannot go is told, and the message goes without it. Raises: StorageError."""
    if not pasted and "@" not in text:
        return
    cwd = conversation.cwd
    named = await asyncio.to_thread(lambda: list(mentioned_pictures(text, cwd)))
    for picture in (*pasted, *named):
        try:
            image = conversation.attach_picture(picture.name, picture.data)
            screen.print(f"with the picture {told(image)}", "dim")
        except UserError as error:
            screen.print(str(error), "warning")
