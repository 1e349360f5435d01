"""A real HTTP server on the loopback that plays one vendor as strictly as the real one.

It refuses what the vendor refuses, in its words, with its status and its error envelope; it
signs thinking and knows its own words again; it counts what a prompt costs by prefix. It imports
nothing of kode. For broken connections and malformed answers there is `tests.scripted_server`.

    with StrictServer([{"text": "Hello"}], vendor="anthropic") as server:
        ...                                  # a client with base_url=server.url and any key
    assert server.refusals == [] and server.soft_faults == []

On its own: `python -m tests.strict_server --vendor V --port 0 --script FILE` prints the port.

Vendors
-------
anthropic   POST /v1/messages, /v1/messages/count_tokens; GET /v1/models, /v1/models/ID (ModelInfo)
openai      POST /v1/responses, /v1/chat/completions; GET /v1/models
gemini, deepseek, moonshot, openrouter, mistral, groq, cerebras, zai, minimax, qwen, or any other
            POST [any prefix]/chat/completions; GET /v1/models
`url` is what a client of the vendor takes as its base URL (with `/v1`, but for anthropic).

Options: `models={name: {field: value}}` changes what `models.Model` says of a model, or adds one
(`{"like": "claude-opus-5-5", "window": 20_000}`); `strict_stateless=False` lets Responses store;
`repeat_last` plays the last reply again and again; `key` is the one API key that is taken.

Script
------
A list of replies played in order, or a function `script(request: dict) -> reply`. A reply that has
`match` plays whenever its regular expression is found in the text of a last message that is the
user's (`^`: a line of it); one that has `model` plays only for that model, which then has an order
of its own. A request for which the script has nothing left is refused, and listed as such.

    thinking           what is thought: a thinking block, a reasoning item with its summary,
                       `reasoning_content`, `reasoning_details`. Left out where the request has
                       thinking off
    thinking_omitted   true: the text stays empty, with a signature. By default as the request and
                       the model have it (`display`, `summary`)
    redacted           hidden thinking, one text or a list
    text, phase        what is said; `phase` by default "commentary" before calls, else
                       "final_answer" (Responses, gpt-5.4 and later)
    calls              [{"name", "arguments": {...} or raw text, "id"?, "extra"?}]; of a tool that
                       the request declares as `custom`, `arguments` is its raw input
    parts              [...] in this order instead, before what is above: {"thinking": text,
                       "omitted"?}, {"redacted": text}, {"text": text, "phase"?}, {"call": {...}},
                       {"search": {"query", "results": [{"url", "title"?}]}} (a server's web search)
                       each with "extra"?
    extra              {name: value} fields that no client knows, on every block, item or message;
                       lost or changed on their way back they are in `soft_faults`
    stop               "end", "tool_calls", "length", "refusal", "pause_turn", "content_filter",
                       "failed", "model_context_window_exceeded"; by default from the calls
    reason             category of a refusal, or code of a failed response
    delay_s            pause before the answer
    cut_after          the connection breaks after that many events of the stream
    end_after          the stream ends there as if it were whole
    hold_after         nothing more comes after that many events, until the client goes
                       (`server.wait_for_disconnect()`)
    error              {"status", "text"?, "type"?, "code"?, "param"?, "retry_after_s"?} instead
    error_after        {"events": n, "error": {...}} in the stream, which then ends

What a test looks at
--------------------
    server.requests    in order: `.path`, `.json`, `.headers`, `.refusal` (the words, or None),
                       `.usage` (as reported, in the vendor's names), `.reply` (whole)
    server.questions   GETs and token counts
    server.refusals    what was refused, as "path: words". An `error` of the script is none
    server.soft_faults what the vendor takes and is worse for: a field that came back changed or
                       lost (`phase`, `extra`, `reasoning_details`, arguments), reasoning sent to
                       another model, more cache breakpoints than are written
    server.billed      {"new", "cached", "written", "output"} tokens over its life
    server.prompts.forget()   as when the cache has run out
    server.play(script), wait_for_requests(n), wait_for_disconnect(n)   as of `ScriptedServer`
"""

from tests.strict_server.server import Asked, StrictServer

__all__ = ["Asked", "StrictServer"]
