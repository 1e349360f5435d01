"""Turns kode's errors into errors of the protocol: a code that clients know, and what to do
next."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from acp import RequestError

from kode.plugin import KodeError, SessionError, UserError, describe_fault

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603  # JSON-RPC 2.0, section 5.1
AUTH_REQUIRED, NOT_FOUND = -32000, -32002  # the Agent Client Protocol's own codes
CODES = {SessionError: NOT_FOUND, UserError: INVALID_PARAMS, KodeError: INTERNAL_ERROR}

P = ParamSpec("P")
R = TypeVar("R")


def translate_faults(
    method: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Turns what a method raises into errors of the protocol."""

    @functools.wraps(method)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(*args, **kwargs)
        except RequestError:
            raise
        except KodeError as error:
            code = next(code for kind, code in CODES.items() if isinstance(error, kind))
            raise RequestError(code, str(error)) from error
        except Exception as error:
            text = await asyncio.to_thread(describe_fault, error)
            raise RequestError(INTERNAL_ERROR, text) from error

    return answer
