"""Masks credentials in what a session stores: on disk, and in the digests of it."""

import json
from typing import Any

from kode.credentials import redact, redact_values

_NOT_MASKED = frozenset(
    "own type id at role stop name event outcome call_id signature redacted origin model kept_from "
    "before to of media_type kept_in".split()
)
"""Names and ids that other entries and the provider refer to."""

_OPAQUE = frozenset(
    "id call_id signature encrypted_content encrypted_index data thought_signature "
    "thoughtSignature".split()
)


def mask(value: Any) -> Any:
    """The JSON value of an entry, or part of one, with credentials masked. Idempotent."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return type(value)(map(mask, value))
    if not isinstance(value, dict):
        return value
    texts = (str, list, tuple, dict)
    masked = {
        key: mask(item) if isinstance(item, texts) and key not in _NOT_MASKED else item
        for key, item in value.items()
    }
    kind, arguments, own = map(value.get, ("type", "arguments", "own"))
    if kind == "tool_call" and isinstance(arguments, str):
        masked["arguments"] = _mask_arguments(arguments)
    if kind == "thinking" and masked.get("text") != value.get("text"):
        # The signature covers the original text; a part without one is never sent back.
        masked["signature"] = ""
    if own is not None and (masked != value or not _is_clean(own)):
        # A part of which a word is masked has no form that its provider would know again.
        masked["own"] = {} if kind == "server_item" else None
    return masked


def _is_clean(value: Any) -> bool:
    """Whether nothing in a provider's own form looks like a credential; what it encrypted or signed
    is not looked at."""
    if isinstance(value, str):
        return redact(value) == value
    if isinstance(value, list | tuple):
        return all(map(_is_clean, value))
    if isinstance(value, dict):
        return all(_is_clean(item) for key, item in value.items() if key not in _OPAQUE)
    return True


def _mask_arguments(text: str) -> str:
    """Masks the arguments of a call, keeping a JSON object: escapes in it may hide its values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    masked = redact_values(value)
    if masked != value:
        text = json.dumps(masked, ensure_ascii=False)
    # Recognizable only beside its name: `"password": "..."`.
    return redact(text)
