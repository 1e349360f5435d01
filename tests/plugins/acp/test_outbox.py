import asyncio

from acp.helpers import update_tool_call

from kode.plugins.acp.calls import text_content
from kode.plugins.acp.live import Outbox
from kode.plugins.acp.updates import Update, message, thought


class Client:
    def __init__(self) -> None:
        self.read: list[Update] = []
        self.has_gone = False

    async def send(self, update: Update) -> None:
        if self.has_gone:
            raise ConnectionError("gone")
        self.read.append(update)


async def test_updates_arrive_in_order_and_none_before_release() -> None:
    client = Client()
    outbox = Outbox(client.send)
    outbox.put(message("one", "a"), thought("two", "a"), message("three", "b"))
    await asyncio.sleep(0)
    assert client.read == []

    await outbox.sent()

    assert client.read == [message("one", "a"), thought("two", "a"), message("three", "b")]


async def test_only_the_latest_output_of_a_command_is_sent() -> None:
    client = Client()
    outbox = Outbox(client.send)
    states = [update_tool_call("c", content=[text_content("x" * n)]) for n in range(1, 50)]
    end = update_tool_call("c", status="completed")

    outbox.put(*states, end, update_tool_call("d", content=[text_content("y")]))
    await outbox.sent()

    assert client.read == [states[-1], end, update_tool_call("d", content=[text_content("y")])]


async def test_updates_for_a_client_that_has_gone_are_dropped() -> None:
    client = Client()
    client.has_gone = True
    outbox = Outbox(client.send)
    outbox.put(message("one", "a"))

    await outbox.sent()
    outbox.put(message("two", "a"))
    await outbox.sent()

    assert client.read == []
    assert not outbox.waiting
