"""A home to look at, and a browser that came in by the link."""

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from kode import paths
from kode.config.model import Config
from kode.messages import Message, Text, ToolCall, ToolResult, Usage, user_message
from kode.plugin import open_memory
from kode.plugins.view.access import Keys
from kode.plugins.view.pages import PageSubject, make_application
from kode.values import validator
from tests.session.stories import new_session, turn_entry

ADDRESS = "127.0.0.1:8000"

HOSTILE = (
    "<script>document.title='owned'; alert(1)</script>"
    "<img src=http://127.0.0.1:9/stolen onerror=alert(2)><svg onload=alert(3)>"
    "</pre></details></style><h1>owned</h1><a href='javascript:alert(4)'>x</a>"
    '" onmouseover="alert(5) {{ 7*7 }} {% raw %} \x1b[2J\x07 \u202egnp.exe\u2066 <!-- ]]>'
)
"""Markup, scripts, a template's own syntax, control characters and marks that reverse a line."""


@dataclass
class Browser:
    """One browser; it follows no redirect by itself."""

    client: TestClient
    keys: Keys
    place: PageSubject

    def get(self, path):
        """The text of a page that is there."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


def make_place(tmp_path, **settings):
    home = paths.kode_home()
    return PageSubject(home=home, cwd=tmp_path, config=validator(Config).validate_python(settings))


def client_of(place, keys):
    return TestClient(
        make_application(place, keys),
        base_url=f"http://{ADDRESS}",
        follow_redirects=False,
        raise_server_exceptions=False,
    )


def enter(place):
    """A browser that has used the link."""
    keys = Keys(address=ADDRESS)
    client = client_of(place, keys)
    client.get(keys.link)
    return Browser(client=client, keys=keys, place=place)


@pytest.fixture
def browser(tmp_path):
    return enter(make_place(tmp_path))


def call(name, id, **arguments):
    part = ToolCall(id=id, name=name, arguments=json.dumps(arguments))
    usage = Usage(input_tokens=1_000, output_tokens=50)
    return Message(role="assistant", parts=(part,), stop="tool_calls", usage=usage, model="m")


def result(name, id, text, *, is_error=False):
    part = ToolResult(call_id=id, name=name, text=text, is_error=is_error)
    return Message(role="tool", parts=(part,))


def says(text, *, tokens=1_200):
    usage = Usage(input_tokens=tokens, output_tokens=30)
    return Message(role="assistant", parts=(Text(text=text),), stop="end", usage=usage, model="m")


def turn(session, asked, *messages, cost_usd=0.25):
    """A whole turn; each request costs the same."""
    session.append_message(user_message(asked))
    for message in messages:
        session.append_message(message, cost_usd if message.role == "assistant" else None)
    session.append(turn_entry(session.turns, session))


def a_session(home, asked, cwd=None):
    session = new_session(home, cwd)
    for text in asked:
        turn(session, text, says(f"re: {text}"))
    session.close()
    return session.header.id


def hostile_session(home):
    session = new_session(home, Path("/tmp/<b>project</b>"))
    turn(
        session,
        HOSTILE,
        call("shell", "c1", command=HOSTILE, description=HOSTILE),
        result("shell", "c1", HOSTILE, is_error=True),
        call("edit_file", "c2", path=HOSTILE, old_text=HOSTILE, new_text=HOSTILE + "!"),
        result("edit_file", "c2", HOSTILE),
        says(HOSTILE),
    )
    session.close()
    return session.header.id


def page_of(browser, session):
    """The page of a session, which ends."""
    session.close()
    return browser.get(f"/sessions/{session.header.id}")


async def remember(place):
    """Facts with a history, one of them written into its file, and a proposal that waits."""
    async with open_memory(place.config, place.cwd) as memory:
        await memory.command(["add", "user", "prefers tabs"])
        await memory.command(["add", "env", "the port is 8080"])
        await memory.command(["edit", "8080", "the port is 9090"])
        await memory.propose(HOSTILE.partition("\x1b")[0], "user", "zed")
    facts = paths.memory_folder(place.home, None) / "facts" / "user.md"
    facts.write_text(f"{facts.read_text()}\n§\n{HOSTILE}")


def words_of(page: str) -> str:
    """What a person reads: no markup, white space folded."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def assert_harmless(page: str) -> None:
    """Nothing of the hostile text became markup, and nothing of it is unseen."""
    for node in LexborHTMLParser(page).root.traverse():
        assert node.tag not in ("script", "img", "iframe", "object", "base")
        for name, value in node.attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            assert name not in ("href", "src", "action") or value[:1] in ("/", "#", "d")
    assert "<h1>owned" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "&lt;script&gt;" in page
