"""How a subagent reaches its models."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kode.config.choice import small_choice
from kode.config.load import load_config
from kode.config.model import Config
from kode.conversation import delegation
from tests.conversation.conftest import Open

KEYS = {"OPENAI_API_KEY": "sk-parent", "ANTHROPIC_API_KEY": "sk-other"}


@pytest.fixture
def handed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The configuration that a child gets, of one that has these flags."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)

    def hand(**flags: Any) -> Config:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        config = load_config(tmp_path / "home", project, environ=KEYS, flags=flags).config
        agent: Any = SimpleNamespace(
            gate=SimpleNamespace(mode="ask", approved_in_session=()),
            spend=SimpleNamespace(
                cost_usd=0.0,
                rest_of_tree_usd=0.0,
                steps=0,
                rest_of_tree_steps=0,
                max_tree_steps=None,
            ),
            provider=SimpleNamespace(model="gpt-5.1"),
            effort=None,
            undo=SimpleNamespace(folder=tmp_path),
            seen_files={},
        )
        session: Any = SimpleNamespace(tainted=False, turns=1, turn_id="m")
        settings = SimpleNamespace(ask=None, trust_project=False)
        talk: Any = SimpleNamespace(config=config, agent=agent, session=session, settings=settings)
        start = delegation.start_of_child(talk)
        return Config.model_validate(start.config)

    return hand


def test_a_fallback_of_the_same_provider_uses_the_same_key(handed: Any) -> None:
    config = handed(provider="openai", model="gpt-5.1", fallback_model="gpt-5-mini")

    other = small_choice(config, {}, config.fallback_model)
    assert (other.name, other.model, other.api_key) == ("openai", "gpt-5-mini", "sk-parent")
    assert "sk-other" not in config.model_dump_json()


def test_a_fallback_of_another_provider_comes_with_its_key(handed: Any) -> None:
    named = "anthropic/claude-sonnet-4-5"
    config = handed(provider="openai", model="gpt-5.1", fallback_model=named)

    other = small_choice(config, {}, config.fallback_model)
    assert (other.name, other.api_key) == ("anthropic", "sk-other")
    assert (config.provider, config.api_key) == ("openai", "sk-parent")


def test_no_key_but_the_one_in_use_is_handed_on(handed: Any) -> None:
    config = handed(provider="openai", model="gpt-5.1")

    assert config.fallback_model is None
    assert "sk-other" not in config.model_dump_json()


async def test_a_headless_call_for_subagents_names_its_flag(
    opened: Open,
) -> None:
    call = {"name": "delegate_tasks", "arguments": {"tasks": [{"goal": "Look around."}]}}
    talk = await opened({"text": "", "calls": [call]}, {"text": "I could not."})

    ended = await talk.turn("Use subagents.")

    assert "delegate_tasks" not in {tool.name for tool in talk.agent.tools}
    assert ended.status == "incomplete"
    assert ["--allow delegate" in denial.reason for denial in ended.denials] == [True]
