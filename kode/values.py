"""Dataclasses whose methods cost nothing before they are used: a command makes instances of a third
of kode's classes, and the standard library compiles six methods of each when it is defined.

All names mean what they do in `dataclasses`.
"""

import dataclasses
from dataclasses import KW_ONLY, MISSING, asdict, field, fields, is_dataclass, replace
from functools import cache, partial
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Self

__all__ = ["KW_ONLY", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]


def _make_dataclass(cls: Any = None, *, frozen: bool = False, **options: bool) -> Any:
    """`__init__` is compiled for the first instance of a class; all classes share the others."""
    if cls is None:
        return partial(_make_dataclass, frozen=frozen, **options)
    shown, compared = options.pop("repr", True), options.pop("eq", True)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else a signature is made for it, slowly
    dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)

    def compile_init(self: Any, *args: Any, **named: Any) -> None:
        cls.__init__ = _compile_init(cls, frozen)
        cls.__init__(self, *args, **named)

    make_hash = (lambda self: hash(_field_getter(cls)(self))) if frozen else None
    methods: dict[str, Any] = {"__init__": compile_init}
    methods |= {"__repr__": _represent} if shown else {}
    methods |= {"__eq__": _is_equal, "__hash__": make_hash} if compared else {}
    methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_set} if frozen else {}
    for name in methods.keys() - vars(cls).keys():
        setattr(cls, name, methods[name])
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _make_dataclass


class Amounts:
    """What is added field by field."""

    def __add__(self, other: Self) -> Self:
        sums = map(add, vars(self).values(), vars(other).values())
        return type(self)(**dict(zip(vars(self), sums, strict=True)))


def _compile_init(cls: Any, is_frozen: bool) -> Any:
    names: dict[str, Any] = {"_set": object.__setattr__}
    parameters, by_name, body = ["self"], ["*"], [""]
    for each in filter(attrgetter("init"), fields(cls)):
        name, make = each.name, each.default_factory
        names[f"{name}_"] = default = each.default if make is MISSING else make
        value = name if make is MISSING else f"{name}_() if {name} is {name}_ else {name}"
        written = name if default is MISSING else f"{name}={name}_"
        (by_name if each.kw_only else parameters).append(written)
        body.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    body.append("self.__post_init__()" if hasattr(cls, "__post_init__") else "return")
    accepted = parameters + (by_name if len(by_name) > 1 else [])
    exec(f"def __init__({', '.join(accepted)}):" + "\n ".join(body), names)
    return names["__init__"]


@cache
def _field_getter(cls: Any) -> "attrgetter[Any]":
    return attrgetter("__class__", *(each.name for each in fields(cls) if each.compare))


def _is_equal(self: Any, other: object) -> bool:
    values = _field_getter(self.__class__)
    return values(self) == values(other) if type(other) is type(self) else NotImplemented


def _represent(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_set(self: Any, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")
