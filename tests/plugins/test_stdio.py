"""The first message of a client, answered before the SDKs are there, says what they would say."""

import json
import os

import acp
import pytest
from acp.schema import ClientCapabilities
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from kode.plugins import stdio
from kode.plugins.acp import hello as to_editor
from kode.plugins.acp.agent import KodeAgent
from kode.plugins.serve.bounds import Bounds
from kode.plugins.serve.command import initialize_result
from kode.plugins.serve.server import make_server
from kode.plugins.serve.sessions import ServedSessions
from kode.plugins.stdio import Greeted, greet
from tests.tables import for_each

KNOWN = {"name": "a test", "version": "1"}
HELLO = {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"mood": "good"}}


@pytest.fixture
def first(tmp_path):
    """Greets a client that has sent these bytes; gives what was read, and written."""

    def of(sent, result=dict):
        descriptors, (reading, writing) = (os.dup(0), os.dup(1)), os.pipe()
        with (tmp_path / "written").open("wb") as written:
            os.write(writing, sent)
            os.close(writing)
            os.dup2(reading, 0)
            os.dup2(written.fileno(), 1)
            try:
                greeted = greet(result, ("no.such.module", "kode.errors"))
            finally:
                for number, copy in enumerate(descriptors):
                    os.dup2(copy, number)
                    os.close(copy)
                os.close(reading)
        return greeted, (tmp_path / "written").read_text()

    return of


def test_an_initialize_is_answered_and_left_for_the_sdk(first):
    sent = json.dumps(HELLO).encode() + b'\n{"half'

    greeted, written = first(sent)

    assert json.loads(written) == {"jsonrpc": "2.0", "id": 3, "result": {"mood": "good"}}
    assert greeted.answered == 3
    assert greeted.unread.startswith(sent)
    line = json.dumps(HELLO).encode() + b"\n"
    assert first(line, lambda params: None) == (Greeted(unread=line), "")


OTHERS = ({"id": None}, {"id": 1.5}, {"id": True}, {"params": [1]}, {"method": "session/new"})
BYTES = (b"", b"\xff\xfe\n", b"[" * 60_000, b"\n", b"{")


@for_each("sent", [*({**HELLO, **other} for other in OTHERS), [HELLO], "hello", *BYTES])
def test_anything_else_waits_unanswered(first, sent, monkeypatch):
    monkeypatch.setattr(stdio, "MAX_FIRST_BYTES", 60_000)
    line = sent if isinstance(sent, bytes) else json.dumps(sent).encode() + b"\n"

    assert first(line) == (Greeted(unread=line), "")


@pytest.mark.parametrize("terminal", [True, False])
async def test_an_editor_hears_what_the_sdk_would_say(terminal):
    can = {"auth": {"terminal": terminal}}
    agent = KodeAgent(flags={})

    said = await agent.initialize(99, ClientCapabilities.model_validate(can))

    shown = said.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    assert to_editor.result({"protocolVersion": 99, "clientCapabilities": can}) == shown
    for version in ("1", -1, 65_536, 1.0, True, None):
        assert to_editor.result({"protocolVersion": version}) is None
    assert shown["protocolVersion"] == acp.PROTOCOL_VERSION


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "2030-01-01", ""])
def test_an_agent_hears_what_the_sdk_would_say(tmp_path, version):
    server = make_server(ServedSessions(Bounds(roots=(tmp_path,))))._lowlevel_server
    options = server.create_initialization_options()

    said = initialize_result({"protocolVersion": version, "capabilities": {}, "clientInfo": KNOWN})

    assert said is not None
    can = options.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert said["capabilities"] == {name: what for name, what in can.items() if what}
    assert said["serverInfo"] == {"name": options.server_name, "version": options.server_version}
    assert said["instructions"] == options.instructions
    known = version in HANDSHAKE_PROTOCOL_VERSIONS
    assert said["protocolVersion"] == (version if known else HANDSHAKE_PROTOCOL_VERSIONS[-1])


@for_each(
    "wrong",
    [
        {"protocolVersion": 1},
        {"capabilities": None},
        {"capabilities": {"roots": 5}},
        {"clientInfo": None},
        {"clientInfo": {"name": "a test"}},
        {"clientInfo": {"name": "a test", "version": 1}},
    ],
)
def test_a_malformed_agent_is_left_to_the_sdk(wrong):
    right = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": KNOWN}

    assert initialize_result(right) is not None
    assert initialize_result({**right, **wrong}) is None
