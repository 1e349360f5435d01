"""A refusal, and what each vendor wraps it in."""

import json
from typing import Any


class Refused(Exception):
    """What the vendor answers instead of a reply, in its words."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: Any = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind
        self.param, self.code = param, code


def refuse(is_wrong: Any, words: str, **more: Any) -> None:
    """Raises `Refused` with the words where something is wrong."""
    if is_wrong:
        raise Refused(words, **more)


class Scripted(Refused):
    """An error that the script wants: no fault of the client's."""


GOOGLE_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
GOOGLE_STATUS |= {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


def envelope(vendor: str, refused: Refused, number: int) -> Any:
    """The body of the error as JSON."""
    message, status = refused.message, refused.status
    if vendor == "anthropic":
        error = {"type": refused.kind, "message": message}
        return {"type": "error", "error": error, "request_id": request_id(number)}
    if vendor == "gemini":
        word = GOOGLE_STATUS.get(status, "INTERNAL")
        return [{"error": {"code": status, "message": message, "status": word}}]
    if vendor == "openrouter":
        raw = json.dumps({"error": {"message": message, "type": refused.kind}})
        metadata = {"raw": raw, "provider_name": "Strict"}
        error = {"message": "Provider returned error", "code": status, "metadata": metadata}
        return {"error": error, "user_id": "user_strict"}
    if vendor == "mistral":
        said: Any = message
        if status == 422:
            where = ["body", *(refused.param or "").split(".")]
            detail = {"type": refused.code, "loc": where, "msg": message, "input": None}
            said = {"detail": [detail]}
        code = None if status == 422 else refused.code
        return {
            "object": "error",
            "message": said,
            "type": refused.kind,
            "param": None,
            "code": code,
        }
    error = {"message": message, "type": refused.kind}
    if vendor not in ("moonshot", "groq"):
        error |= {"param": refused.param, "code": refused.code}
    return {"error": error}


def request_id(number: int) -> str:
    return f"req_strict{number:06d}"
