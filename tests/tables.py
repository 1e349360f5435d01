"""Tables of values: one test that tries every row, where a test for each would cost more than the
row does."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
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
        failures: list[Exception] = []

        @contextlib.contextmanager
        def tried(row: Any) -> Iterator[dict[str, Any]]:
            try:
                yield dict(zip(arguments, row, strict=True))
            except Exception as error:
                error.add_note(f"The row: {row!r}")
                failures.append(error)

        def end() -> None:
            failed, failures[:] = failures[:], []
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows fail", failed)

        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            for row in table:
                with tried(row) as values:
                    check(**fixtures, **values)
            end()

        @functools.wraps(check)
        async def waiting_test(**fixtures: Any) -> None:
            for row in table:
                with tried(row) as values:
                    await check(**fixtures, **values)
            end()

        made: Any = waiting_test if inspect.iscoroutinefunction(check) else test
        signature = inspect.signature(check)
        parameters = [
            parameter for name, parameter in signature.parameters.items() if name not in arguments
        ]
        made.__signature__ = signature.replace(parameters=parameters)
        return made

    return decorate
