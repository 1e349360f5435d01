"""Tables of values: one test that tries every row, where a test for each would cost more than the
row does."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Check = Callable[..., Any]


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Check], Check]:
    """Like `pytest.mark.parametrize`, as one test. Every row is tried; those that fail are raised
    together, each with its values as a note. Several stand above each other as in pytest.

    It is for functions of values, also for coroutines: rows share the folder and the patches of the
    one test.
    """
    arguments, table = (names,), [(row,) for row in rows]
    if not isinstance(names, str):
        arguments, table = names, [tuple(row) for (row,) in table]
    assert table, "A table without rows proves nothing"

    def decorate(check: Check) -> Check:
        async def try_rows(**fixtures: Any) -> None:
            failures: list[Exception] = []
            for row in table:
                try:
                    result = check(**fixtures, **dict(zip(arguments, row, strict=True)))
                    if inspect.isawaitable(result):
                        await result
                except Exception as error:
                    error.add_note(f"The row: {row!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(table)} rows fail", failures)

        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            with contextlib.suppress(StopIteration):
                try_rows(**fixtures).send(None)

        made: Any = functools.wraps(check)(try_rows) if inspect.iscoroutinefunction(check) else test
        signature = inspect.signature(check)
        parameters = [it for name, it in signature.parameters.items() if name not in arguments]
        made.__signature__ = signature.replace(parameters=parameters)
        return made

    return decorate
