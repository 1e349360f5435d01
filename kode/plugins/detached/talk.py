"""Asks a living session's prompt, over its socket: one line of JSON there, one back."""

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from kode.plugin import SessionError
from kode.plugins.detached import holder, places

WAIT_S = 10.0
"""A prompt that answers later is stopped, or its machine is."""


def connect(folder: Path, name: str) -> socket.socket:
    """A connection to a socket in a session's folder. Raises: SessionError."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(WAIT_S)
    try:
        with places.working_in(folder):
            connection.connect(name)
        if name == holder.TERMINAL:
            connection.sendall(holder.frame(holder.HELLO, (folder / places.TOKEN).read_bytes()))
    except OSError as error:
        connection.close()
        raise SessionError(
            f"The session {folder.name} does not answer ({error.strerror or error}). It may just "
            "have ended: `kode ps` says more."
        ) from None
    return connection


def ask(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """What the prompt answers. Raises: SessionError, also for what it refuses."""
    with contextlib.closing(connect(folder, places.CONTROL)) as connection:
        try:
            token = (folder / places.TOKEN).read_text()
            connection.sendall(json.dumps({**request, "token": token}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline())
        except (OSError, ValueError):
            raise SessionError(
                f"The session {folder.name} did not answer within {WAIT_S:g} s. `kode ps` says "
                f"whether it lives; `kode stop {folder.name}` ends it."
            ) from None
    if fault := answer.get("fault"):
        raise SessionError(str(fault))
    return dict(answer)
