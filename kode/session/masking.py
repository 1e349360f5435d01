"""Masks credentials in what a session stores: on disk, and in the digests of it."""

import json
from typing import Any

from kode.credentials import redact

_NOT_MASKED = frozenset(
    "type id at role stop name event outcome call_id signature redacted origin model kept_from "
    "before to of media_type kept_in".split()
)
"""Names and ids that other entries and the provider refer to."""


def masked(value: Any) -> Any:
    """The JSON value of an entry, or part of one, with credentials masked. Idempotent."""
    if isinstance(value, str):
        return redact(value) if len(value) >= 8 else value
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = value.get("own")
    if own is not None:
        plain = masked({key: v for key, v in value.items() if key != "own"})
        # A part of which a word is masked has no form that its provider would know again.
        same = _is_clean(own) and all(value[key] == v for key, v in plain.items())
        lost: Any = {} if value.get("type") == "server_item" else None
        return {key: (own if same else lost) if key == "own" else plain[key] for key in value}
    found = {key: v if key in _NOT_MASKED else masked(v) for key, v in value.items()}
    if value.get("type") == "tool_call":
        found["arguments"] = _masked_arguments(value["arguments"])
    if value.get("type") == "thinking" and found["text"] != value["text"]:
        # The signature covers the original text; a part without one is never sent back.
        found["signature"] = ""
    return found


def _is_clean(value: Any) -> bool:
    """Whether nothing in a provider's own form looks like a credential; what it encrypted or signed
    is not looked at."""
    if isinstance(value, str):
        return len(value) < 8 or redact(value) == value
    if isinstance(value, list | tuple):
        return all(map(_is_clean, value))
    if isinstance(value, dict):
        return all(_is_clean(item) for key, item in value.items() if key not in _OPAQUE)
    return True


_OPAQUE = frozenset(
    "id call_id signature encrypted_content encrypted_index data thought_signature "
    "thoughtSignature".split()
)


def _masked_arguments(text: str) -> str:
    """Masks the arguments of a call, keeping a JSON object: escapes in it may hide its values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    found = _masked_values(value)
    if found != value:
        text = json.dumps(found, ensure_ascii=False)
    # Recognizable only beside its name: `"password": "..."`.
    return redact(text)


def _masked_values(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_masked_values(item) for item in value]
    if isinstance(value, dict):
        return {key: _masked_values(item) for key, item in value.items()}
    return value
