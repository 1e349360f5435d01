"""`kode schema NAME`: the JSON schemas of kode's output and files, for programs that read them.

Each is generated from the type that is written or read; docs/scripts.md explains them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from kode import installed
from kode.cli.commands.stream_input import LINE
from kode.cli.parser import Parser
from kode.cli.screen.printer import print_line
from kode.errors import EXIT_OK
from kode.events import Event, Result, ResultLine, TurnEnded
from kode.session.entries import OWN_TYPES, Header, PluginEntry
from kode.subagents.task import Snapshot, Task


class _Whole(GenerateJsonSchema):  # output includes all fields, also those with a default
    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


def main(argv: Sequence[str]) -> int:
    """Runs `kode schema NAME`. Raises: ConfigError."""
    parser = Parser("kode schema", "Print a JSON schema of kode's input, output or files.")
    names = (*SCHEMAS, *installed.added("schemas"))
    parser.add_argument("name", choices=names, metavar="NAME", help=", ".join(names))
    print_line(json.dumps(schema_of(parser.parse(argv).name), indent=2))
    return EXIT_OK


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of that name. Raises: PluginError."""
    added = installed.added("schemas")
    schema = SCHEMAS[name]() if name in SCHEMAS else _of_output(installed.load(*added[name]))
    return {"$schema": _Whole.schema_dialect, **schema, "title": f"kode {name}"}


def _of_output(kinds: Any, generator: type[GenerateJsonSchema] = _Whole) -> dict[str, Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(kinds)
    return adapter.json_schema(mode="serialization", schema_generator=generator)


def _of_lines(kinds: Iterable[Any], generator: type[GenerateJsonSchema] = _Whole) -> dict[str, Any]:
    return _of_output(Annotated[reduce(or_, kinds), Field(discriminator="type")], generator)


def _of_session() -> dict[str, Any]:
    """Default values are omitted in a line of a session file."""
    schema = _of_lines((Header, *OWN_TYPES), GenerateJsonSchema)
    of_plugin = _of_output(PluginEntry, GenerateJsonSchema)
    of_plugin["properties"]["type"]["pattern"] = "^x-"
    schema["oneOf"].append(of_plugin)
    return schema


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    # The lines of `--output-format stream-json`; the last is a `result` instead of a `TurnEnded`.
    "events": lambda: _of_lines((ResultLine, *(k for k in get_args(Event) if k is not TurnEnded))),
    "result": partial(_of_output, Result),  # the object of `--output-format json`
    "session": _of_session,  # a line of a session file
    "messages": LINE.json_schema,  # a line of `--input-format stream-json`
    "task": Task.model_json_schema,  # the file of `kode subagent --task`
    "snapshot": Snapshot.model_json_schema,  # the file of its `--memory-snapshot`
}
