from types import SimpleNamespace

from kode.cli.prompt.complete import (
    choices_of,
    memory_choices,
    session_choices,
)
from kode.cli.prompt.state import PromptState
from kode.messages import user_message
from kode.session import log
from kode.session.entries import Header
from tests.cli.fake_conversation import FakeConversation
from tests.scripted_server import ScriptedServer


def test_models_are_offered_with_what_they_hold_and_cost():
    offer = SimpleNamespace(models=["claude-sonnet-5-5"], provider="anthropic")
    state = SimpleNamespace(opened=True, offers=lambda ask: [offer])
    facts = "1M tokens · $2 in, $10 out"
    assert choices_of(state)["/model"](()) == [("claude-sonnet-5-5", facts)]


def test_sessions_are_offered_with_what_was_asked(tmp_path):
    session = log.create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="p"))
    session.append_message(user_message("fix the parser"))
    session.close()
    empty = log.create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="p"))

    assert session_choices(tmp_path, tmp_path) == [(session.id, "1 turn · fix the parser")]
    empty.close()


def test_the_words_of_memory_are_those_of_its_commands():
    first = dict(memory_choices(()))

    assert {"show", "search", "log", "undo", "add"} <= set(first)
    assert list(dict(memory_choices(("add",), "tiered"))) == ["user", "env"]
    assert list(memory_choices(("nonsense",))) == []


def test_background_commands_are_offered_for_each_thing_they_allow(tmp_path):
    state = PromptState(screen=None, renderer=None, commands={})
    state.opened = FakeConversation(tmp_path, tmp_path)
    state.opened.commands = SimpleNamespace(
        commands=[
            SimpleNamespace(name="b1", running=SimpleNamespace(command="make test"), runs=True),
            SimpleNamespace(name="b2", running=SimpleNamespace(command="make"), runs=False),
        ]
    )
    offered = choices_of(state)["/bg"]

    assert [word for word, _ in offered(())] == ["list", "read", "tell", "kill"]
    assert offered(("read",)) == [("b1", "make test"), ("b2", "make")]
    assert offered(("kill",)) == [("b1", "make test")]
    assert list(offered(("list",))) == []


def test_choices_are_empty_before_the_conversation_is_open(tmp_path, monkeypatch):
    state = PromptState(screen=None, renderer=None, commands={})
    offered = choices_of(state)

    assert list(offered["/model"](())) == []
    assert list(offered["/resume"](())) == []

    state.opened = FakeConversation(tmp_path, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert "claude-sonnet-5-5" in dict(offered["/model"](()))
    with ScriptedServer() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        assert list(dict(offered["/model"](()))) == ["big-model", "scripted-model"]
    assert {"high", "default"} <= dict(offered["/effort"](())).keys()
    assert [mode for mode, _ in offered["/permissions"](())] == [
        "ask",
        "auto-edit",
        "plan",
        "full",
    ]
