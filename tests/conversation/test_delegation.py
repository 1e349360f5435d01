"""What a subagent begins with: its models, and what is denied to it."""

import pytest

from kode.config.choice import choose_small_model
from kode.config.model import Config
from kode.conversation import delegation
from kode.values import asdict, validator
from tests.conversation.conftest import Open, calling

OTHER = "anthropic/claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("fallback", "choice"),
    [
        (None, None),
        ("gpt-5-mini", ("openai", "gpt-5-mini", "sk-parent")),
        (OTHER, ("anthropic", "claude-sonnet-4-5", "sk-other")),
    ],
)
async def test_a_child_gets_the_keys_of_its_models_alone(
    opened: Open, monkeypatch: pytest.MonkeyPatch, fallback: str | None, choice: tuple[str] | None
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-parent")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    talk = await opened(provider="openai", model="gpt-5.1", fallback_model=fallback)

    config = validator(Config).validate_python(delegation.make_child_start(talk).config)

    assert (config.provider, config.api_key) == ("openai", "sk-parent")
    assert ("sk-other" in str(asdict(config))) == (fallback == OTHER)
    assert bool(config.fallback_model) == bool(fallback)
    if fallback:
        other = choose_small_model(config, {}, config.fallback_model)
        assert (other.name, other.model, other.api_key) == choice


async def test_a_headless_call_for_subagents_names_its_flag(opened: Open) -> None:
    call = calling("delegate_tasks", tasks=[{"goal": "Look around."}])
    talk = await opened(call, {"text": "I could not."})

    ended = await talk.turn("Use subagents.")

    assert "delegate_tasks" not in {tool.name for tool in talk.agent.tools}
    assert ended.status == "incomplete"
    assert ["--allow 'delegate'" in denial.reason for denial in ended.denials] == [True]


async def test_a_plugins_no_holds_for_a_child_too(opened: Open) -> None:
    talk = await opened(provider="openai", model="gpt-5.1", api_key="k")
    talk.deny_edits({"check.py": "It is the check."})

    config = validator(Config).validate_python(delegation.make_child_start(talk).config)

    assert "edit(check.py)" in config.permissions.deny
