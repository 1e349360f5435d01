"""What vendors' servers refuse, in their words, and what kode makes of it."""

import json
from pathlib import Path
from typing import Any

from kode.errors import (
    ContextOverflow,
    ProviderError,
    RefusedError,
    ThinkingRefused,
    TransientError,
)
from kode.providers.errors import Endpoint, from_status
from kode.providers.refusals import read_table
from tests.tables import for_each

ENDPOINT = Endpoint(base_url="https://api.example.com", model="a-model")
KINDS: dict[str, type[ProviderError]] = {
    "thinking": ThinkingRefused,
    "setting": RefusedError,
    "refused": RefusedError,
    "overflow": ContextOverflow,
    "transient": TransientError,
}


def recorded() -> list[Any]:
    """Lines of the case file: `kind` is one of `KINDS`, `setting:NAME` for a setting; `names` is
    what kode's sentence must name."""
    lines = (Path(__file__).parent / "data" / "refusals.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@for_each("case", recorded())
def test_a_refusal_is_told_by_what_to_change(case: dict[str, Any]) -> None:
    error = from_status(case["status"], case["body"], {}, ENDPOINT)

    kind, _, setting = case["kind"].partition(":")
    assert type(error) is KINDS[kind]
    assert getattr(error, "part", "") == setting
    assert case["names"] in str(error)


def test_every_droppable_setting_has_a_recorded_refusal() -> None:
    refused = {case["kind"].partition(":")[2] for case in recorded()}

    assert set(read_table().settings) <= refused
    assert {"thinking", "effort", "later_system", "cache"} <= set(read_table().then) & set(
        read_table().settings
    )
