"""The faults of a provider: what the server does, what a person must see, what must be kept and
sent next. `docs/reliability.md` has the same table in words.

A fault's replies are played in order, the last one as often as it is asked for. Most go wrong in
the same place: in an answer with thinking, text and a call.
"""

import json
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

Reply = dict[str, Any]

NOTES = "the notes\n"
"""What the project's `notes.txt` holds."""

CALL: Reply = {"name": "read_file", "arguments": {"path": "notes.txt"}}
ANSWER: Reply = {"thinking": "Let me think about it.", "text": "Hello there, I look at it now."}
ASKING: Reply = {**ANSWER, "calls": [CALL]}
DONE: Reply = {"text": "All done."}
LOGIN = "<!doctype html><html><head><title>Sign in</title></head><body>Login</body></html>"

ATTEMPTS = 2


@dataclass(frozen=True, kw_only=True)
class Fault:
    name: str
    replies: tuple[Reply, ...]
    says: str = ""
    """Found in standard error; the whole of it is one line a retry and one for the end."""
    code: int = 1
    out: str = ""
    """Standard output, whole."""
    kept: tuple[str, ...] = ()
    """What the session holds after the person's message: a pattern for each of `told_lines`."""
    asked: int = 1
    """How many requests there were."""
    unreachable: bool = False
    """No server at all."""
    idle_s: float = 60.0
    total_s: float = 60.0


NO_FAULT = Fault(name="none", replies=())


def wire(reply: Reply, **how: Any) -> Reply:
    return {**reply, "wire": how}


def error(status: int | str, text: str = "", headers: dict[str, str] | None = None) -> Reply:
    said = {"text": text} if text else {}
    return {"error": {"status": status, **said}, "wire": {"headers": headers or {}}}


def limited(retry_after: str) -> Reply:
    return error(429, "Slow down", {"retry-after": retry_after})


PARTIAL = "assistant interrupted: Hello there"
"""How a reply is kept that broke off in its text."""
CALLED = (
    "assistant tool_calls: Hello there.* read_file",
    "tool: .*the notes",
    "assistant end: All",
)

IN_TEN_DAYS = formatdate(time.time() + 10 * 86400, usegmt=True)
LONG_AGO = formatdate(time.time() - 3600, usegmt=True)

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="refuses the connection",
        replies=(),
        unreachable=True,
        says=r"No server answers at http://127\.0\.0\.1:\d+\S* \(connection refused\)\. Check",
        asked=0,
    ),
    Fault(
        name="hangs up",
        replies=(wire(ANSWER, hang_up=True),),
        says="connection to .* was lost .*check the server",
        asked=ATTEMPTS,
    ),
    Fault(
        name="stalls before its answer",
        replies=(wire(ANSWER, stall_before_s=60),),
        # A server of one's own may read a long request in silence: it is waited for, once.
        says=r"sent nothing yet.*sent nothing for 3 s.*total_timeout_s",
        idle_s=0.5,
        total_s=3.0,
    ),
    Fault(
        name="stalls in its answer",
        replies=(wire(ANSWER, stall_after="Hello", stall_s=60),),
        says=r"sent nothing for 0\.5 s",
        out="Hello there",
        kept=(PARTIAL,),
        asked=ATTEMPTS,
        idle_s=0.5,
    ),
    Fault(
        name="sends without end",
        replies=(wire({"text": "and so on "}, endless=True),),
        says=r"not complete after 1\.5 s.*total_timeout_s",
        out="and so on and so on",
        kept=("assistant interrupted: and so on",),
        total_s=1.5,
    ),
    Fault(
        name="sends 50 MB of text",
        replies=(wire({"text": "lorem ipsum "}, text_bytes=50_000_000),),
        says="grew beyond 10 million characters.*Ask for less",
        out="lorem ipsum 0 lorem",
        kept=("assistant interrupted: lorem ipsum .* left out .*lorem",),
    ),
    Fault(
        name="says 429 once",
        replies=(error(429, "Slow down"), DONE),
        code=0,
        says=r"allows no more requests for now \(HTTP 429\): Slow down\. Retrying in",
        out="All done.",
        kept=("assistant end: All done.",),
        asked=2,
    ),
    Fault(
        name="says 429 again and again",
        replies=(error(429, "Slow down"),),
        says="HTTP 429.*Tried 2 times. Send it again later",
        asked=ATTEMPTS,
    ),
    Fault(
        name="says 429 with Retry-After in seconds",
        replies=(limited("0.2"), DONE),
        code=0,
        says="HTTP 429.*Retrying in",
        out="All done.",
        kept=("assistant end: All done.",),
        asked=2,
    ),
    Fault(
        name="says 429 with Retry-After as a date",
        replies=(limited(IN_TEN_DAYS),),
        says="HTTP 429.*asks to wait 10 days .*Send it again then",
    ),
    Fault(
        name="says 429 with a date that has passed",
        replies=(limited(LONG_AGO), DONE),
        code=0,
        says="HTTP 429.*Retrying in",
        out="All done.",
        kept=("assistant end: All done.",),
        asked=2,
    ),
    *(
        Fault(
            name=f"says 429 with Retry-After {value}",
            replies=(limited(value), DONE),
            code=0,
            says="HTTP 429.*Retrying in",
            out="All done.",
            kept=("assistant end: All done.",),
            asked=2,
        )
        for value in ("-5", "NaN", "1e999", "soon", "")
    ),
    Fault(
        name="says 429 with Retry-After of centuries",
        replies=(limited("9" * 14),),
        says="HTTP 429.*asks to wait for years .*Send it again then",
    ),
    *(
        Fault(
            name=f"says {status}",
            replies=(error(status),),
            says=f"HTTP {status}.*Tried 2 times",
            asked=ATTEMPTS,
        )
        for status in (500, 502, 503, 504, 529)
    ),
    Fault(
        name="is overloaded in its answer",
        replies=(
            wire(
                ANSWER,
                error_after={"chunks": "Hello", "error": {"status": 529, "type": "overloaded"}},
            ),
        ),
        says="overloaded|ended its answer with an error",
        out="Hello there",
        kept=(PARTIAL,),
        asked=ATTEMPTS,
    ),
    Fault(
        name="shows a login page",
        replies=(wire(ANSWER, body=LOGIN),),
        says="answered with a web page .*base URL, and whether a login",
    ),
    Fault(
        name="sends half a JSON",
        replies=(wire(ANSWER, body='{"choices": [{"del', content_type="application/json"),),
        says="could not be read: it is cut",
        asked=ATTEMPTS,
    ),
    Fault(
        name="sends half a JSON in its stream",
        replies=(wire(ANSWER, frames=['data: {"type": "message_st\n\n']),),
        says="could not be read: it is cut",
        asked=ATTEMPTS,
    ),
    Fault(
        name="sends an empty body",
        replies=(wire(ANSWER, body="", content_type="text/event-stream"),),
        says="answered with nothing",
        asked=ATTEMPTS,
    ),
    *(
        Fault(
            name=f"calls its stream {kind}",
            replies=(wire(ASKING, headers={"content-type": kind}), DONE),
            code=0,
            out="All done.",
            kept=CALLED,
            asked=2,
        )
        for kind in ("application/json", "text/plain", "application/octet-stream", "")
    ),
    Fault(
        name="sends two final chunks",
        replies=(wire(ASKING, two_finals=True), DONE),
        code=0,
        out="All done.",
        kept=CALLED,
        asked=2,
    ),
    Fault(
        name="sends no usage",
        replies=(wire(ASKING, no_usage=True), wire(DONE, no_usage=True)),
        code=0,
        out="All done.",
        kept=CALLED,
        asked=2,
    ),
    *(
        Fault(
            name=f"sends calls with {what} ids",
            replies=(
                wire({**ANSWER, "calls": [CALL, CALL, CALL]}, ids=ids),
                wire({"calls": [CALL]}, ids=ids),
                DONE,
            ),
            code=0,
            out="All done.",
            kept=(
                "assistant tool_calls: Hello there.* read_file read_file read_file",
                "tool: .*the notes.*the notes.*the notes",
                "assistant tool_calls: read_file",
                "tool: .*the notes",
                "assistant end: All",
            ),
            asked=3,
        )
        for what, ids in (
            ("empty", ["", "", ""]),
            ("the same", ["a", "a", "a"]),
            ("odd", ["x" * 200, "a b/ü", "\x00\n"]),
        )
    ),
    Fault(
        name="calls a tool that is not there",
        replies=({**ANSWER, "calls": [{"name": "read file.txt", "arguments": {}}]}, DONE),
        code=0,
        says=r"There is no tool `read_file_txt`|failed",
        out="All done.",
        kept=(
            "assistant tool_calls: Hello there.* read_file_txt",
            "tool: There is no tool `read_file_txt`.*The tools are: read_file",
            "assistant end: All",
        ),
        asked=2,
    ),
    Fault(
        name="says nothing",
        replies=({"text": ""},),
        says="gave an empty answer. Try again, or use another model",
        kept=("assistant end:", "user: Your reply was empty", "assistant end:"),
        asked=2,
    ),
    Fault(
        name="says nothing once",
        replies=({"text": ""}, DONE),
        code=0,
        out="All done.",
        kept=("assistant end:", "user: Your reply was empty", "assistant end: All"),
        asked=2,
    ),
    Fault(
        name="announces calls and makes none",
        replies=({"text": "", "stop": "tool_calls"},),
        says="announced tool calls and sent none",
        asked=ATTEMPTS,
    ),
    Fault(
        name="refuses in words",
        replies=({"text": "I will not do that.", "stop": "refusal"},),
        says="The model refused this request. Rephrase the task",
        out="I will not do that.",
        kept=("assistant refusal: I will not",),
    ),
    Fault(
        name="refuses without a word",
        replies=({"text": "", "stop": "refusal"},),
        says="The model refused this request",
        kept=("assistant refusal:",),
    ),
    Fault(
        name="reaches the limit in its text",
        replies=({**ANSWER, "stop": "length"},),
        says="The answer was cut at the output limit of .*Send `continue`",
        out="Hello there, I look at it now.",
        kept=("assistant length: Hello there",),
    ),
    Fault(
        name="reaches the limit before its text",
        replies=({"thinking": "Let me think about it.", "stop": "length"},),
        says="cut at the output limit",
        kept=("assistant length:",),
    ),
    Fault(
        name="reaches the limit in a call",
        replies=(
            {**ANSWER, "calls": [{**CALL, "arguments": '{"path": "no'}], "stop": "length"},
            DONE,
        ),
        code=0,
        out="All done.",
        kept=(
            "assistant length: Hello there.* read_file",
            "tool: Not run: the reply hit the output limit",
            "assistant end: All",
        ),
        asked=2,
    ),
    Fault(
        name="sends arguments that are no JSON",
        replies=({**ANSWER, "calls": [{**CALL, "arguments": '{"path": "no'}]}, DONE),
        code=0,
        says="not valid JSON",
        out="All done.",
        kept=(
            "assistant tool_calls: Hello there.* read_file",
            "tool: read_file was not run: its arguments are not valid JSON",
            "assistant end: All",
        ),
        asked=2,
    ),
    Fault(
        name="refuses the key",
        replies=(error("auth", "Incorrect API key provided: sk-test-0123456789abcdef0123"),),
        says="did not accept the key.*The setting to change is",
    ),
    Fault(
        name="does not know the model",
        replies=(error(404, "The model `some-model` does not exist"),),
        says="does not know the model some-model.*--model",
    ),
    Fault(
        name="has no credit left",
        replies=(error(402, "Insufficient credits"),),
        says="no credit or quota left.*billing page",
    ),
    Fault(
        name="sends requests elsewhere",
        replies=(error(307, "", {"location": "http://127.0.0.1:9/elsewhere"}),),
        says="sends requests on to http://127.0.0.1:9/elsewhere .*does not follow with the key",
    ),
)


def told_lines(messages: list[Any]) -> list[str]:
    """Each message as one line: role, how it ended, text, the tools called."""
    lines = []
    for message in messages:
        head = message.role + (f" {message.stop}" if message.stop else "")
        words = []
        for part in message.parts:
            if part.type == "tool_result" or (part.type == "text" and part.source != "opening"):
                words.append(part.text)
            elif part.type == "tool_call":
                words.append(part.name)
        lines.append(" ".join(f"{head}: {' '.join(words)}".split()))
    return lines


def spoken(body: dict[str, Any]) -> str:
    """All that a request says, as one text."""
    return json.dumps(body["messages"], ensure_ascii=False)
