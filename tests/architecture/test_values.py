"""kode's dataclasses are those of the standard library in all that a caller sees."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kode import values
from tests.tables import for_each


def define(dataclass: Callable[..., Any], options: dict[str, bool]) -> Any:
    @dataclass(**options)
    class Value:
        number: int
        text: str = "a"
        names: list[str] = dataclasses.field(default_factory=list)
        secret: str = dataclasses.field(default="s", repr=False, compare=False)
        own: str = dataclasses.field(default="", init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "own", self.text * 2)

    @dataclass(**options)
    class More(Value):
        last: int | None = None

    return Value, More


OPTIONS = [
    {},
    {"frozen": True},
    {"frozen": True, "kw_only": True},
    {"eq": False},
    {"eq": False, "repr": False, "kw_only": True},
]


def describe_result(act: Callable[[], object]) -> object:
    try:
        return str(act())
    except (TypeError, AttributeError) as error:
        return type(error)


@for_each("options", OPTIONS)
def test_a_value_is_that_of_a_dataclass(options: dict[str, bool]) -> None:
    both = []
    for dataclass in (values.dataclass, dataclasses.dataclass):
        for kind in define(dataclass, options):
            value, equal = kind(number=1, names=("x",)), kind(number=1, names=("x",), secret="t")
            acts: list[Callable[[], object]] = [
                lambda kind=kind: kind(1, "b"),
                lambda kind=kind: kind(),
                lambda kind=kind: kind(number=1, other=2),
                lambda value=value, equal=equal: (value == equal, value == 1, value != equal),
                lambda value=value, equal=equal: hash(value) == hash(equal),
                lambda value=value: setattr(value, "number", 2),
                lambda value=value: delattr(value, "text"),
                lambda value=value: (values.asdict(value), value.own),
                lambda value=value: values.replace(value, number=3).number,
                lambda kind=kind: (kind(number=1).names, kind(number=1).secret),
                lambda value=value: "" if options.get("repr") is False else value,
            ]
            both.append([describe_result(act) for act in acts])
    assert both[:2] == both[2:]


def test_no_module_of_the_core_defines_another_dataclass() -> None:
    core = Path(values.__file__).parent
    others = [path for path in core.rglob("*.py") if not path.is_relative_to(core / "plugins")]
    found = [path for path in others if re.search("^from dataclasses", path.read_text(), re.M)]
    assert found == [Path(values.__file__)]
