"""`kode schema NAME`: the JSON schemas of kode's output and files, for programs that read them.

Each is generated from the type that is written or read, never by hand. New fields and new kinds of
events and lines may be added; docs/scripts.md explains them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from kode.plugin import EXIT_OK, Parser

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Whole(GenerateJsonSchema):
    """For output that includes all fields, also those with a default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


def main(argv: Sequence[str]) -> int:
    """Runs `kode schema NAME`. Raises: ConfigError."""
    parser = Parser("kode schema", "Print a JSON schema of kode's input, output or files.")
    names = ", ".join(SCHEMAS)
    parser.add_argument("name", choices=SCHEMAS, metavar="NAME", help=names)
    print(json.dumps(schema_of(parser.parse(argv).name), indent=2))
    return EXIT_OK


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of that name."""
    return {"$schema": DIALECT, **SCHEMAS[name](), "title": f"kode {name}"}


def _events() -> dict[str, Any]:
    """The lines of `--output-format stream-json`."""
    from kode.plugin import Event, ResultLine, TurnEnded

    kinds: Any = ResultLine
    for kind in get_args(Event):
        if kind is not TurnEnded:  # its content is the last line, `result`
            kinds |= kind
    return _of_kinds(kinds, _Whole)


def _result() -> dict[str, Any]:
    """The object of `--output-format json`."""
    from kode.plugin import Result

    return TypeAdapter(Result).json_schema(mode="serialization", schema_generator=_Whole)


def _goal() -> dict[str, Any]:
    """`goal` in a result, and the `value` of a line of type `notice` about a goal."""
    from kode.plugins.goals.forms import FORMS

    return TypeAdapter(FORMS).json_schema(mode="serialization", schema_generator=_Whole)


def _session() -> dict[str, Any]:
    """A line of a session file, where default values are omitted."""
    from kode.plugin import OWN_TYPES, Header, PluginEntry

    schema = _of_kinds(Union[(Header, *OWN_TYPES)], GenerateJsonSchema)
    of_plugin = TypeAdapter(PluginEntry).json_schema(mode="serialization")
    of_plugin["properties"]["type"]["pattern"] = "^x-"
    schema["oneOf"].append(of_plugin)
    return schema


def _task() -> dict[str, Any]:
    """The file of `kode subagent --task`."""
    from kode.plugin import Task

    return Task.model_json_schema()


def _snapshot() -> dict[str, Any]:
    """The file of `kode subagent --memory-snapshot`."""
    from kode.plugin import Snapshot

    return Snapshot.model_json_schema()


def _messages() -> dict[str, Any]:
    """A line of `--input-format stream-json`."""
    from kode.plugin import LINE

    return LINE.json_schema()


def _of_kinds(kinds: Any, generator: type[GenerateJsonSchema]) -> dict[str, Any]:
    """The schema of a union discriminated by `type`."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[kinds, Field(discriminator="type")])
    return adapter.json_schema(mode="serialization", schema_generator=generator)


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "events": _events,
    "result": _result,
    "goal": _goal,
    "session": _session,
    "messages": _messages,
    "task": _task,
    "snapshot": _snapshot,
}
