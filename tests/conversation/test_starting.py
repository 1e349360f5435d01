"""The start of a session, with its first turn."""

import pytest

from kode.conversation import sessions
from kode.errors import StorageError
from kode.messages import Text
from tests.conversation.conftest import Open


async def test_a_failed_start_drops_its_attachments_and_can_be_retried(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await opened({"text": "done"}, mode="full")
    waits = Text(text="waits")
    talk.attachments.append(waits)

    async def fails(*_: object) -> None:
        raise StorageError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "open_context", fails)
        with pytest.raises(StorageError):
            await talk.turn("look", attachments=[Text(text="given")])
    assert (talk.catalog, talk.attachments) == (None, [waits])

    assert (await talk.turn("look")).status == "success"
    names = [tool.name for tool in talk.agent.tools]
    assert len(names) == len(set(names))


async def test_a_model_chosen_while_a_session_starts_stays(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await opened({"text": "done"}, mode="full")
    opens = sessions.open_context

    async def meanwhile(*given: object) -> None:
        talk.use_model("another")
        await opens(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "open_context", meanwhile)
    await talk.start()

    assert talk.agent.provider.model == "another"
    assert "delegate_tasks" in [tool.name for tool in talk.agent.tools]
