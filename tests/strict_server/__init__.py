"""A real HTTP server on the loopback that plays one vendor as strictly as the real one.

It refuses what the vendor refuses, and what kode has no reason to send; it
signs thinking and knows its own words again; it counts what a prompt costs by prefix. It imports
nothing of kode. Its connections and scripts are those of `tests.scripted_server`, `wire` included.

    with StrictServer([{"text": "Hello"}], vendor="anthropic") as server:
        ...                                  # a client with base_url=server.url and any key
    assert server.refusals == [] and server.soft_faults == []

Vendors: `anthropic` (POST /v1/messages), `openai` (/v1/responses, /v1/chat/completions), gemini,
deepseek, moonshot, openrouter, mistral, groq, cerebras, zai, or any other
([any prefix]/chat/completions).

A reply is as of the scripted server, and a request for which the script has nothing left is
refused. Besides:

    thinking           left out where the request has thinking off
    calls              [{"name", "arguments", "id"?, "extra"?}]; of a tool that the request declares
                       as `custom`, `arguments` is its raw input
    parts              [...] in this order before what is above: {"thinking": text},
                       {"text": text}, {"call": {...}},
                       {"search": {"query", "results": [{"url", "title"?}]}} (a server's web search)
                       each with "extra"?
    extra              {name: value} fields that no client knows, on every block, item or message;
                       lost or changed on their way back they are in `soft_faults`
    stop               also "pause_turn" and what a vendor calls it

What a test looks at:

    server.requests    in order: `.path`, `.json`, `.headers`, `.refusal` (the words, or None),
                       `.usage` (as reported, in the vendor's names), `.reply` (whole)
    server.refusals    what was refused, as "path: words". An `error` of the script is none
    server.soft_faults what the vendor takes and is worse for: a field that came back changed or
                       lost (`phase`, `extra`, `reasoning_details`, arguments), reasoning sent to
                       another model, more cache breakpoints than are written
"""

from tests.strict_server.server import Asked, StrictServer

__all__ = ["Asked", "StrictServer"]
