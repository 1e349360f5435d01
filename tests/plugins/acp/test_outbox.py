import asyncio

from kode.plugins.acp.calls import text_content
from kode.plugins.acp.outbox import Outbox
from kode.plugins.acp.updates import Update, message, progress, thought


class Client:
    """Reads when it is let."""

    def __init__(self) -> None:
        self.read: list[Update] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.has_gone = False

    async def send(self, update: Update) -> None:
        if self.has_gone:
            raise ConnectionError("gone")
        self.read.append(update)
        await self.reads.wait()


async def test_updates_arrive_in_order_and_none_before_release() -> None:
    client = Client()
    outbox = Outbox(client.send)
    outbox.put(message("one", "a"), thought("two", "a"), message("three", "b"))
    await asyncio.sleep(0)
    assert client.read == []

    await outbox.sent()

    assert client.read == [message("one", "a"), thought("two", "a"), message("three", "b")]


async def test_a_slow_client_gets_pieces_of_a_message_joined() -> None:
    client = Client()
    outbox = Outbox(client.send)
    outbox.release()
    client.reads.clear()
    outbox.put(message("0", "a"))
    await asyncio.sleep(0)
    for number in range(1, 100):
        outbox.put(message(str(number), "a"))
    outbox.put(message("other", "b"))

    client.reads.set()
    await outbox.sent()

    assert [one.content.text for one in client.read] == [
        "0",
        "".join(map(str, range(1, 100))),
        "other",
    ]


async def test_only_the_latest_output_of_a_command_is_sent() -> None:
    client = Client()
    outbox = Outbox(client.send)
    states = [progress("c", content=[text_content("x" * n)]) for n in range(1, 50)]
    end = progress("c", status="completed")

    outbox.put(*states, end, progress("d", content=[text_content("y")]))
    await outbox.sent()

    assert client.read == [states[-1], end, progress("d", content=[text_content("y")])]


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
