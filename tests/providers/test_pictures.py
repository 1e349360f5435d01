"""Pictures on the wire: both formats carry them, and a model that cannot see is told."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kode.errors import RefusedError
from kode.events import Notice, silent
from kode.images import keep
from kode.messages import Image, Message, Text, ToolCall, ToolResult, user_message
from kode.provider import Request
from kode.providers import open_provider
from kode.providers.models import info_of
from kode.providers.provider import HttpProvider
from tests import pictures
from tests.scripted_server import ScriptedServer
from tests.tables import for_each

DATA = base64.b64encode(pictures.png()).decode()


@pytest.fixture
def shown(tmp_path: Path) -> Message:
    image = keep(tmp_path, "shot.png", pictures.png())
    return Message(role="user", parts=(image, Text(text="What is on it?")))


def provider(kind: str, server: ScriptedServer, sees_images: bool | None):
    url = server.openai_url if kind == "openai" else server.anthropic_url
    overrides = {} if sees_images is None else {"m": {"sees_images": sees_images}}
    return open_provider(kind, "m", base_url=url, api_key="k", overrides=overrides)


async def sent(kind: str, message: Message, sees_images: bool | None) -> list[dict]:
    with ScriptedServer([{"text": "ok"}]) as server:
        asked = provider(kind, server, sees_images)
        await asked.reply(Request(system="", messages=[message]), silent)
        await asked.aclose()
        content = server.requests[0].json["messages"][0]["content"]
    for block in content:
        block.pop("cache_control", None)
    return content


@pytest.mark.parametrize("sees", [True, None])
async def test_chat_completions_carries_a_picture_as_a_data_url(shown, sees):
    assert await sent("openai", shown, sees) == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        {"type": "text", "text": "What is on it?"},
    ]


@pytest.mark.parametrize("sees", [True, None])
async def test_messages_carries_a_picture_as_a_source(shown, sees):
    assert await sent("anthropic", shown, sees) == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": DATA},
        },
        {"type": "text", "text": "What is on it?"},
    ]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_model_that_cannot_see_gets_a_note_instead(kind, shown):
    first, second = await sent(kind, shown, False)

    assert "shot.png, is not shown: this model cannot see images" in first["text"]
    assert second["text"] == "What is on it?"


@for_each(
    ("count", "side", "shown"),
    [(20, 2100, 20), (21, 2100, 0), (21, 2000, 21), (100, 9, 100), (101, 9, 76), (125, 9, 100)],
)
def test_a_request_has_only_pictures_that_fit_together(
    tmp_path: Path, count: int, side: int, shown: int
) -> None:
    images = [
        keep(tmp_path, f"{number}.png", pictures.png(width=1 + number)) for number in range(count)
    ]
    parts = tuple(replace(image, width=side, height=side) for image in images)
    opened = open_provider("anthropic", "m", base_url="http://127.0.0.1:1", api_key="k")
    assert isinstance(opened, HttpProvider)

    body = json.loads(
        opened.encode(Request(system="", messages=[Message(role="user", parts=parts)]))
    )

    types = [block["type"] for block in body["messages"][0]["content"]]
    assert types == ["text"] * (count - shown) + ["image"] * shown


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_picture_whose_file_is_gone_leaves_a_note(kind, shown):
    [image] = [part for part in shown.parts if isinstance(part, Image)]
    Path(image.kept_in).unlink()

    first, _ = await sent(kind, shown, True)

    assert first["type"] != "image"
    assert "shot.png, is not shown" in first["text"]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_refused_picture_names_the_setting_that_helps(kind, shown):
    refusal = {"error": {"status": 400, "text": "image input is not supported"}}
    with ScriptedServer([refusal, refusal]) as server:
        asked = provider(kind, server, None)
        with pytest.raises(RefusedError, match=r"shot.png.*context.sees_images"):
            await asked.reply(Request(system="", messages=[shown]), silent)
        with pytest.raises(RefusedError) as plain:
            await asked.reply(Request(system="", messages=[user_message("hi")]), silent)
        await asked.aclose()

    assert "shows an image" not in str(plain.value)


TOO_MANY = (
    "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 "
    "pixels"
)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_turn_goes_on_without_pictures_the_server_refused(kind, shown, tmp_path):
    new = keep(tmp_path / "new", "new.png", pictures.png(width=3))
    later = Message(role="user", parts=(new, Text(text="And this?")))
    events = []
    refusal = {"error": {"status": 400, "text": TOO_MANY}}
    with ScriptedServer([refusal, {"text": "ok"}, {"text": "ok"}]) as server:
        asked = provider(kind, server, None)
        reply = await asked.reply(Request(system="", messages=[shown]), events.append)
        await asked.reply(Request(system="", messages=[shown, reply, later]), events.append)
        await asked.aclose()
        _, repaired, after = (json.dumps(request.json) for request in server.requests)

    assert len([event for event in events if isinstance(event, Notice)]) == 1
    assert "its server does not take it" in repaired
    assert repaired.count("base64") == 0
    assert after.count("base64,") + after.count('"base64"') == 1


@for_each(
    ("model", "sees"),
    [
        ("claude-sonnet-5-5", True),
        ("gpt-5-mini-2025-08-07", True),
        ("qwen2.5-vl:7b", True),
        ("gpt-3.5-turbo", False),
        ("deepseek-chat", False),
        ("my-own-model", None),
    ],
)
def test_kode_knows_which_models_see(model, sees):
    assert info_of(model).sees_images is sees


def test_the_person_knows_better_which_models_see():
    assert info_of("my-own", {"my-own": {"sees_images": True}}).sees_images is True
    assert info_of("gpt-5", {"gpt-5": {"sees_images": False}}).sees_images is False


async def test_a_picture_of_a_result_follows_it_in_both_formats(shown):
    call = ToolCall(id="c1", name="paint", arguments="{}")
    result = ToolResult(call_id="c1", name="paint", text="look")
    messages = [
        user_message("Paint."),
        Message(role="assistant", parts=(call,), stop="tool_calls"),
        Message(role="tool", parts=(result, shown.parts[0])),
    ]
    bodies = {}
    for kind in ("openai", "anthropic"):
        with ScriptedServer([{"text": "ok"}]) as server:
            asked = provider(kind, server, None)
            await asked.reply(Request(system="", messages=messages), silent)
            await asked.aclose()
            bodies[kind] = server.requests[0].json["messages"]

    told, picture = bodies["openai"][-2:]
    assert (told["role"], told["content"]) == ("tool", "look")
    assert picture["role"] == "user"
    assert [block["type"] for block in picture["content"]] == ["image_url"]
    assert [block["type"] for block in bodies["anthropic"][-1]["content"]] == [
        "tool_result",
        "image",
    ]
