"""The faults of a provider: what the server does, what a person must see, what must be kept and
sent next. What each error of a wire means is proven in `tests/providers`; here is one row for each
way on from it. `docs/reliability.md` has the same table in words.

A fault's replies are played in order, the last one as often as it is asked for. Most go wrong in
the same place: in an answer with thinking, text and a call.
"""

import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from kode.messages import Message

Reply = dict[str, Any]

ATTEMPTS = 2
NOTES = "the notes\n"
"""What the project's `notes.txt` holds."""
CALL: Reply = {"name": "read_file", "arguments": {"path": "notes.txt"}}
CUT_CALL: Reply = {**CALL, "arguments": '{"path": "no'}
ANSWER: Reply = {"thinking": "Let me think about it.", "text": "Hello there, I look at it now."}
ASKING: Reply = {**ANSWER, "calls": [CALL]}
DONE: Reply = {"text": "All done."}
EMPTY: Reply = {"text": ""}
LOGIN = "<!doctype html><html><head><title>Sign in</title></head><body>Login</body></html>"
IN_TEN_DAYS = formatdate(time.time() + 10 * 86400, usegmt=True)


@dataclass(frozen=True, kw_only=True)
class Fault:
    replies: tuple[Reply, ...] = ()
    says: str = ""
    """Found in standard error; the whole of it is one line a retry and one for the end."""
    out: str = ""
    """How standard output begins."""
    kept: tuple[str, ...] = ()
    """What the session holds after the person's message: a pattern for each of `outline`."""
    asked: int = 1
    """How many requests there were."""
    unreachable: bool = False
    """No server at all."""
    idle_s: float = 60.0
    total_s: float = 60.0

    @property
    def code(self) -> int:
        return 0 if self.replies and self.replies[-1] is DONE else 1


def wire(reply: Reply, **how: Any) -> Reply:
    return {**reply, "wire": how}


def error(status: int | str, text: str = "", **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"error": {"status": status, "text": text}, "wire": {"headers": names}}


PARTIAL = ("assistant interrupted: Hello there",)
"""How a reply is kept that broke off in its text."""
END = "assistant end: All"
NUDGED = ("assistant end:", "user: Your reply was empty")

FAULTS = {
    "refuses the connection": Fault(
        unreachable=True,
        says=r"No server answers at http://127\.0\.0\.1:\d+\S* \(connection refused\)\. Check",
        asked=0,
    ),
    "hangs up": Fault(
        replies=(wire(ANSWER, hang_up=True),),
        says="connection to .* was lost .*check the server",
        asked=ATTEMPTS,
    ),
    "breaks off in its text": Fault(
        replies=(wire(ASKING, drop_after="Hello"),),
        says="connection to .* was lost",
        out="Hello there",
        kept=PARTIAL,
        asked=ATTEMPTS,
    ),
    "breaks off in a call": Fault(
        replies=(wire(ASKING, drop_after="read_file"),),
        says="connection to .* was lost",
        out="Hello there",
        kept=PARTIAL,
        asked=ATTEMPTS,
    ),
    "stalls before its answer": Fault(
        replies=(wire(ANSWER, stall_before_s=60),),
        # A server of one's own may read a long request in silence: it is waited for, once.
        says=r"No data from .* for 3 s.*total_timeout_s",
        idle_s=0.5,
        total_s=3.0,
    ),
    "stalls in its answer": Fault(
        replies=(wire(ANSWER, stall_after="Hello", stall_s=60),),
        says=r"No data from .* for 0\.5 s",
        out="Hello there",
        kept=PARTIAL,
        asked=ATTEMPTS,
        idle_s=0.5,
    ),
    "sends without end": Fault(
        replies=(wire({"text": "and so on "}, endless=True),),
        says=r"not complete after 1\.5 s.*total_timeout_s",
        out="and so on and so on",
        kept=("assistant interrupted: and so on",),
        total_s=1.5,
    ),
    "sends 50 MB of text": Fault(
        replies=(wire({"text": "lorem ipsum "}, text_bytes=50_000_000),),
        says="grew beyond 10 million characters.*Ask for less",
        out="lorem ipsum 0 lorem",
        kept=("assistant interrupted: lorem ipsum .* left out .*lorem",),
    ),
    "says 429 once": Fault(
        replies=(error(429, "Slow down"), DONE),
        says=r"Rate limited by .* \(HTTP 429\): Slow down\. Retrying in",
        out="All done.",
        kept=(END,),
        asked=2,
    ),
    "says 429 with Retry-After as a date": Fault(
        replies=(error(429, "Slow down", retry_after=IN_TEN_DAYS),),
        says="HTTP 429.*asks to wait 10 days .*Send it again then",
    ),
    "shows a login page": Fault(
        replies=(wire(ANSWER, body=LOGIN),),
        says="answered with a web page .*base URL, and whether a login",
    ),
    "sends calls with the same ids": Fault(
        replies=(
            wire({**ANSWER, "calls": [CALL, CALL, CALL]}, ids=["a", "a", "a"]),
            wire({"calls": [CALL]}, ids=["a", "a", "a"]),
            DONE,
        ),
        out="All done.",
        kept=(
            "assistant tool_calls: Hello there.* read_file read_file read_file",
            "tool: .*the notes.*the notes.*the notes",
            "assistant tool_calls: read_file",
            "tool: .*the notes",
            END,
        ),
        asked=3,
    ),
    "calls a tool that is not there": Fault(
        replies=({**ANSWER, "calls": [{"name": "read file.txt", "arguments": {}}]}, DONE),
        says=r"There is no tool `read_file_txt`|failed",
        out="All done.",
        kept=(
            "assistant tool_calls: Hello there.* read_file_txt",
            "tool: There is no tool `read_file_txt`.*The tools are: read_file",
            END,
        ),
        asked=2,
    ),
    "says nothing": Fault(
        replies=(EMPTY,),
        says="gave an empty answer. Try again, or use another model",
        kept=(*NUDGED, "assistant end:"),
        asked=2,
    ),
    "reaches the limit in its text": Fault(
        replies=({**ANSWER, "stop": "length"},),
        says="The answer was cut at the output limit of .*Send `continue`",
        out="Hello there, I look at it now.",
        kept=("assistant length: Hello there",),
    ),
    "reaches the limit in a call": Fault(
        replies=({**ANSWER, "calls": [CUT_CALL], "stop": "length"}, DONE),
        out="All done.",
        kept=(
            "assistant length: Hello there.* read_file",
            "tool: Not run: the reply hit the output limit",
            END,
        ),
        asked=2,
    ),
    "sends arguments that are no JSON": Fault(
        replies=({**ANSWER, "calls": [CUT_CALL]}, DONE),
        says="not valid JSON",
        out="All done.",
        kept=(
            "assistant tool_calls: Hello there.* read_file",
            "tool: read_file was not run: its arguments are not valid JSON",
            END,
        ),
        asked=2,
    ),
    "refuses the key": Fault(
        replies=(error("auth", "Incorrect API key provided: sk-test-0123456789abcdef0123"),),
        says="rejected the API key.*Set",
    ),
}


def outline(messages: list[Message]) -> list[str]:
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
