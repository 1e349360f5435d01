"""One request and its answer, through the client of an SDK: what both wire formats share of it.

Where the request goes, what is in it and what an event means is told by the provider.
"""

from collections.abc import Callable
from typing import Any

from kode.providers.boundary import Endpoint
from kode.providers.draft import Draft
from kode.providers.stream import Deadline, Event, read_reply, refuse

CONNECT_TIMEOUT_S = 15.0


def client_settings(http_client_class: Any, endpoint: Endpoint) -> dict[str, Any]:
    """The arguments for an SDK's client, which leave retries, limits of time and faults to kode.
    `http_client_class` is the SDK's own `DefaultAsyncHttpxClient`."""
    import httpx2

    return {
        "max_retries": 0,
        # Pauses and the whole are limited by `Deadline`; the client's own limits are per read.
        "timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
        "http_client": http_client_class(
            event_hooks={"response": [lambda response: refuse(response, endpoint)]}
        ),
    }


async def exchange(
    client: Any,
    path: str,
    body: bytes,
    stream_class: Any,
    draft: Draft,
    take: Callable[[Event], None],
    deadline: Deadline,
) -> None:
    """Posts a body and feeds the events of the answer to `take`, which fills the draft.
    `stream_class` is the SDK's own `AsyncStream[object]`.

    Raises: ProviderError; what the SDK and its HTTP client raise passes through.
    """
    async with deadline:
        stream = await client.post(
            path,
            content=body,
            cast_to=object,
            options={
                "headers": {"Content-Type": "application/json"},
                # A redirect would carry the key and the conversation to another host.
                "follow_redirects": False,
            },
            stream=True,
            stream_cls=stream_class,
        )
        await read_reply(stream.response, draft, take, deadline)
