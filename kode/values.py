"""Dataclasses whose methods cost nothing before they are used: a command makes instances of a third
of kode's classes, and the standard library compiles six methods of each when it is defined. Names
that `dataclasses` has too mean the same. And their JSON: `pydantic` reads any type, and takes much
longer to import than its core, which reads these.
"""

import builtins
import dataclasses
import types
import typing
from collections import abc
from dataclasses import KW_ONLY, MISSING, asdict, field, fields, is_dataclass, replace
from functools import cache, partial
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

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
    methods: dict[str, Any] = {
        "__init__": compile_init,
        **({"__repr__": _represent} if shown else {}),
        **({"__eq__": _is_equal, "__hash__": make_hash} if compared else {}),
        **({"__setattr__": _refuse_set, "__delattr__": _refuse_set} if frozen else {}),
    }
    for name in methods.keys() - vars(cls).keys():
        setattr(cls, name, methods[name])
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass

    from pydantic_core import SchemaSerializer, SchemaValidator
else:
    dataclass = _make_dataclass


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


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Value:
    """A value: each subclass is a frozen dataclass, whose fields are given by name."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class Amounts(Value):
    """A value that is added field by field."""

    def __add__(self, other: Self) -> Self:
        sums = map(add, vars(self).values(), vars(other).values())
        return type(self)(**dict(zip(vars(self), sums, strict=True)))


@cache
def validator(cls: Any) -> "SchemaValidator":
    """Makes instances of a dataclass from JSON. Its fields are texts, numbers, booleans, `Literal`,
    tuples, `Mapping`, dataclasses, unions of them, or None. `Annotated` adds a function that gets
    the value first, or limits, each a pair of its name in `pydantic_core` and its value."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_schema_of(cls))


@cache
def serializer(cls: Any) -> "SchemaSerializer":
    """Makes JSON from instances of a dataclass, for `validator` to read."""
    from pydantic_core import SchemaSerializer

    return SchemaSerializer(_schema_of(cls))


def _schema_of(hint: Any) -> Any:
    """A type as `pydantic_core` describes it."""
    match [typing.get_origin(hint), *typing.get_args(hint)]:
        case [typing.Literal, *values]:
            return {"type": "literal", "expected": values}
        case [typing.Annotated, kind, tuple() as limit, *limits]:
            return _schema_of(kind) | dict([limit, *limits])
        case [typing.Annotated, kind, convert]:
            function = {"type": "no-info", "function": convert}
            return {"type": "function-before", "function": function, "schema": _schema_of(kind)}
        case [abc.Mapping, key, value]:
            schemas = {"keys_schema": _schema_of(key), "values_schema": _schema_of(value)}
            return {"type": "dict", **schemas}
        case [builtins.tuple, kind, types.EllipsisType()]:
            return {"type": "tuple", "items_schema": [_schema_of(kind)], "variadic_item_index": 0}
        case [builtins.tuple, *kinds]:
            return {"type": "tuple", "items_schema": [*map(_schema_of, kinds)]}
        case [_, kind, types.NoneType]:
            return {"type": "nullable", "schema": _schema_of(kind)}
        case [typing.Union | types.UnionType, *kinds]:
            return {"type": "union", "choices": [*map(_schema_of, kinds)]}
    if is_dataclass(hint):
        return _schema_of_class(hint)
    return {"type": "any" if hint is Any else hint.__name__}


def _schema_of_class(cls: Any) -> Any:
    hints, rows = typing.get_type_hints(cls, include_extras=True), list[Any]()
    for each in fields(cls):
        values = {"default": each.default, "default_factory": each.default_factory}
        default = {name: value for name, value in values.items() if value is not MISSING}
        schema = {"type": "default", "schema": _schema_of(hints[each.name]), **default}
        rows.append({"type": "dataclass-field", "name": each.name, "schema": schema})
    return {
        "type": "dataclass",
        "cls": cls,
        "fields": [row["name"] for row in rows],
        "schema": {"type": "dataclass-args", "dataclass_name": cls.__name__, "fields": rows},
        "post_init": hasattr(cls, "__post_init__"),
    }
