"""A repository with a home beside it, files written into both, and conversations there."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kode.config.load import load_config
from kode.conversation import Conversation, Settings, open_conversation
from kode.events import Event, Notice, ToolFinished, TurnEnded
from kode.extensions import review, trust
from kode.extensions.definitions import Surroundings, find_surroundings
from kode.extensions.review import FoundExtensions
from kode.permissions.question import Ask
from tests.workplaces import empty_repository

Open = Callable[..., Awaitable[Conversation]]


@dataclass
class World:
    user_home: Path
    events: list[Event]
    """What the conversations have reported."""

    @property
    def project(self) -> Path:
        return self.user_home / "project"

    @property
    def home(self) -> Path:
        return self.user_home / "kode-home"

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def finished(self) -> list[ToolFinished]:
        return [event for event in self.events if isinstance(event, ToolFinished)]

    def write(self, path: str, text: str, *, mode: int = 0o644) -> Path:
        """A file of the repository, or with `~/` of the home."""
        file = self.user_home / path[2:] if path.startswith("~/") else self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def around(self) -> Surroundings:
        return find_surroundings(self.project, self.home, self.user_home)

    def find(self, *, trust_project: bool = False) -> FoundExtensions:
        approvals = trust.load(self.home, self.project, trust_project=trust_project)
        return review.find_extensions(self.around(), approvals)

    def approve(self, *, outside: bool = False) -> None:
        """Says yes to all that is there now, also without a sandbox."""
        items = review.find_items(self.home, self.project)
        more = [trust.outside_item(item) for item in items] if outside else []
        trust.approve_items(self.home, self.project, [*items, *more])


async def play(
    opened: Open, *calls: dict[str, Any], message: str = "work", **flags: Any
) -> tuple[Conversation, TurnEnded]:
    """A conversation whose model has made these calls in its only turn, and how that ended."""
    replies = [{"calls": [*calls]}] if calls else []
    conversation = await opened(*replies, {"text": "done"}, {"text": "done"}, **flags)
    return conversation, await conversation.turn(message)


@pytest.fixture
def world(tmp_path: Path, events: list[Event]) -> World:
    empty_repository(tmp_path / "project")
    return World(user_home=tmp_path.resolve(), events=events)


@pytest.fixture
async def opened(world: World) -> Any:
    """Opens a conversation in the repository whose model says these replies."""
    made: list[Conversation] = []

    async def make(
        *replies: dict[str, Any],
        mode: str = "ask",
        ask: Ask | None = None,
        trust_project: bool = False,
        **flags: Any,
    ):
        script = world.user_home / f"script-{len(made)}.json"
        script.write_text(json.dumps(replies))
        settings = {
            "provider": "scripted",
            "script": str(script),
            "permissions.mode": mode,
            "memory.enabled": False,
            **flags,
        }
        loaded = load_config(world.home, world.project, environ={}, flags=settings)
        conversation = await open_conversation(
            Settings(loaded, emit=world.events.append, ask=ask, trust_project=trust_project),
            cwd=world.project,
        )
        made.append(conversation)
        return conversation

    yield make
    for conversation in made:
        await conversation.close()
