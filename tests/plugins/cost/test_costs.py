"""A session's cost with reasons, from its file and those of the sessions before it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kode.contracts import Request
from kode.messages import Message, Text, Usage, user_message
from kode.plugins.cost.figures import SessionCost, session_cost
from kode.session import log
from kode.session.entries import SystemEntry
from kode.session.log import Session
from kode.session.requests import request_entry, system_text

Opened = Callable[..., Session]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    made: list[Session] = []

    def create(model: str = "m") -> Session:
        time.sleep(0.002)  # sessions are ordered by the millisecond
        made.append(log.create(tmp_path, cwd=tmp_path, model=model, provider="openai"))
        return made[-1]

    yield create
    for session in made:
        session.close()


def ask(session: Session, memory: str, usage: Usage | None) -> None:
    """A request to the model m, and its answer unless it has no usage."""
    time.sleep(0.002)  # sessions are ordered by the millisecond
    sections = {"kode": "Be good. " * 200, "memory": memory}
    session.append(SystemEntry(text=system_text(sections)))
    session.append_message(user_message("Go on."))
    request = Request(system=session.system, messages=session.messages, tools=())
    source: Any = SimpleNamespace(name="openai", model="m")
    session.append(request_entry("turn", source, request, sections=sections))
    if usage is not None:
        parts = (Text(text="ok"),)
        session.append_message(Message(role="assistant", parts=parts, usage=usage, model="m"))


def costs(home: Path, session: Session) -> SessionCost:
    assert session.id is not None
    return session_cost(home, session.id, lambda model, usage: None)


WARM = Usage(input_tokens=2_000, cached_tokens=1_900)
COLD = Usage(input_tokens=2_000)


def test_changes_before_a_failed_request_explain_the_next(tmp_path: Path, opened: Opened) -> None:
    session = opened()
    ask(session, "Likes tea.", WARM)
    ask(session, "Likes coffee.", None)
    ask(session, "Likes coffee.", COLD)
    (found,) = costs(tmp_path, session).breaks
    assert (found.kind, found.step) == ("memory", session.entries[-1].id)
    assert found.tokens > 0


def test_a_first_request_is_not_compared_with_one_that_failed(
    tmp_path: Path, opened: Opened
) -> None:
    for usage in (WARM, None, COLD):
        session = opened()
        ask(session, "Likes tea." if usage is WARM else "Likes coffee.", usage)
    assert [one.kind for one in costs(tmp_path, session).breaks] == ["memory"]


def test_a_first_request_is_compared_despite_a_changed_model(
    tmp_path: Path, opened: Opened
) -> None:
    ask(opened(), "Likes coffee.", WARM)
    ask(opened(model="another"), "Likes tea.", WARM)
    session = opened()
    ask(session, "Likes coffee.", COLD)
    (found,) = costs(tmp_path, session).breaks
    assert (found.kind, found.cause[:4]) == ("memory", "memo")


def test_a_first_request_is_compared_with_a_later_session(tmp_path: Path, opened: Opened) -> None:
    waiting = opened()
    ask(opened(), "Likes tea.", WARM)
    ask(waiting, "Likes coffee.", COLD)
    assert [one.kind for one in costs(tmp_path, waiting).breaks] == ["memory"]


@pytest.mark.parametrize(("usage", "kinds"), [(WARM, ["cache"]), (COLD, [])])
def test_only_servers_reporting_cached_tokens_can_lose_them(
    tmp_path: Path, opened: Opened, usage: Usage, kinds: list[str]
) -> None:
    ask(opened(), "Likes tea.", usage)
    session = opened()
    ask(session, "Likes tea.", COLD)
    assert [one.kind for one in costs(tmp_path, session).breaks] == kinds
