"""What vendors' servers refuse, in their words, and what kode makes of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from kode.errors import (
    ContextOverflow,
    ProviderError,
    RefusedError,
    ThinkingRefused,
    TransientError,
)
from kode.messages import Image, Message
from kode.provider import ModelInfo, Request
from kode.providers.encoding import WireForm
from kode.providers.errors import Endpoint, from_status
from kode.providers.refusals import read_table
from kode.providers.request import Omissions, prepare_request, repair_request
from tests.tables import for_each

DATA = Path(__file__).parent / "data"
ENDPOINT = Endpoint(base_url="https://api.example.com", model="a-model")
KINDS: dict[str, type[ProviderError]] = {
    "thinking": ThinkingRefused,
    "setting": RefusedError,
    "refused": RefusedError,
    "overflow": ContextOverflow,
    "transient": TransientError,
}


def recorded(name: str) -> list[Any]:
    """Lines of a case file. `kind` is one of `KINDS`, `setting:NAME` for a setting; `names` is what
    kode's sentence must name."""
    lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def words_of(case: Any) -> str:
    """The words of a recorded refusal, as the rules read them."""
    return json.dumps(case.get("body", case.get("message")), ensure_ascii=False).replace('\\"', '"')


@for_each("case", recorded("refusals"))
def test_a_refusal_is_told_by_what_to_change(case: dict[str, Any]) -> None:
    endpoint = replace(ENDPOINT, api=case["api"])
    error = from_status(case["status"], case["body"], {}, endpoint)

    kind, _, setting = case["kind"].partition(":")
    assert type(error) is KINDS[kind]
    assert getattr(error, "part", "") == setting
    assert case["names"] in str(error)


def test_every_rule_has_a_recorded_case() -> None:
    cases = [case for name in ("refusals", "chat_refusals", "faults") for case in recorded(name)]
    alone = [
        (rule.api, rule.means, rule.statuses)
        for rule in read_table().rules
        if not any(rule.search(words_of(case)) for case in cases)
    ]

    assert alone == []


def test_every_part_is_refused_by_a_rule() -> None:
    assert read_table().parts.keys() <= {rule.means for rule in read_table().rules}


PICTURE = Image(
    name="a.png",
    media_type="image/png",
    width=1,
    height=1,
    size_bytes=1,
    kept_in="/kept/1.png",
)
SHOWN = Request(system="", messages=[Message(role="user", parts=(PICTURE,))], max_output_tokens=99)


@for_each(
    ("refused", "omitted"),
    [
        (RefusedError("x", part="attachment"), Omissions(images=frozenset({"/kept/1.png"}))),
        (
            RefusedError(
                "x", part="output_limit", server_text="max_tokens is too large: at most 50"
            ),
            Omissions(output_tokens=50),
        ),
        (RefusedError("x", part="usage"), Omissions(parts=frozenset({"usage"}))),
    ],
)
def test_a_refused_part_is_left_out_once(refused: RefusedError, omitted: Omissions) -> None:
    repair = repair_request(refused, SHOWN, Omissions(), "chat")

    assert repair is not None
    assert repair[0] == omitted
    assert repair_request(refused, SHOWN, omitted, "chat") is None


def test_omitted_parts_are_not_sent_again() -> None:
    omitted = Omissions(images=frozenset({"/kept/1.png"}), output_tokens=50)
    info = ModelInfo(context_window=9_000, max_output_tokens=100)

    assert prepare_request(SHOWN, (), info, omitted).max_output_tokens == 50
    data, note = WireForm(omitted_images=omitted.images).image_data(PICTURE)
    assert data is None
    assert "a.png" in note
