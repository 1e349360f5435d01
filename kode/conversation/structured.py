"""A turn whose answer is a value that fits a schema.

The turn is like any other, with its tools. An answer that does not fit is requested again with its
error, and the server must then enforce the schema, if it can.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kode.engine.context import Context
from kode.errors import ConfigError
from kode.events import TurnEnded
from kode.messages import Text, shorten, text_of

if TYPE_CHECKING:
    from kode.conversation.conversation import Steering

MAX_AGAIN = 2
"""How often an answer that does not fit is requested again."""

WANTED = """\
When the work is done, answer with one JSON value and nothing else: no words around it. It must \
fit this JSON schema:
{schema}"""

AGAIN = """\
Your answer does not fit the JSON schema: {fault}
Answer again with the whole JSON value, and nothing else."""

FAILED = (
    "The answer does not fit the schema, asked {times} times: {fault} Ask for less, or simpler."
)

_FENCED = re.compile(r"^```\w*\n(.*)\n```$", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Form:
    """The required form of an answer."""

    schema: Mapping[str, Any]
    """The JSON schema, for the model and its server."""
    read: Callable[[str], Any]
    """JSON text → value. Raises: ValueError that tells the model what is wrong."""


def form_of_schema(schema: Any, where: str) -> Form:
    """The form for a JSON schema; its values are plain JSON. `where` names the schema in errors.
    References outside of it are not followed.

    Raises: ConfigError if it is not a valid schema, or incomplete.
    """
    from jsonschema import SchemaError, validators
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not isinstance(schema, dict):
        raise ConfigError(f"{where} is not a JSON schema: it must be an object like {{...}}.")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"{where} is not a JSON schema: {_at(error)}.") from None
    base = schema.get("$id", "")
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    resolver = Registry().with_resource(base, resource).crawl().resolver(base)
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ConfigError(
                f"{where} refers to {reference}, which is not in it. Put all of it in one schema."
            ) from None
    # An empty registry: nothing is fetched.
    validator = kind(schema, registry=Registry())

    def read(text: str) -> Any:
        try:
            value = json.loads(text, parse_constant=_no_constant)
            faults = [_at(error) for error in validator.iter_errors(value)]
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if faults:
            raise ValueError("; ".join(faults[:5]))
        return value

    return Form(schema=schema, read=read)


def form_of_type(kind: Any) -> Form:
    """The form for a type that pydantic knows: a model, a dataclass, `list[int]`. Raises:
    ConfigError for a type without a JSON schema."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise ConfigError(f"{kind!r} cannot be asked for: {error.message}") from None

    def read(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            faults = (
                f"{'.'.join(map(str, fault['loc'])) or 'the value'}: {fault['msg']}"
                for fault in error.errors(include_url=False)[:5]
            )
            raise ValueError("; ".join(faults)) from None

    return Form(schema=schema, read=read)


@dataclass
class Insistence:
    """Continues a turn, as the person's words would, while its answer does not fit a form. From the
    first answer that does not, the server must hold answers to the schema, if it can."""

    context: Context
    form: Form
    steering_of_person: "Steering"
    again: int = 0

    @property
    def request(self) -> Text:
        """What the model is told of the form, with the message."""
        schema = json.dumps(self.form.schema, ensure_ascii=False)
        return Text(text=WANTED.format(schema=schema), source="note")

    def steering(self) -> Sequence[Text]:
        """See `run_turn`: called after each step, and after the answer."""
        if texts := self.steering_of_person():
            return texts
        last = self.context.session.messages[-1]
        if last.role != "assistant" or self.again == MAX_AGAIN:
            return ()
        try:
            _value_in(text_of(last), self.form)
        except ValueError as error:
            self.again += 1
            if self.again == 1:  # the server may have refused since
                self.context.answer_schema = self.form.schema
            return (Text(text=AGAIN.format(fault=error), typed=""),)
        return ()

    def conclude(self, ended: TurnEnded) -> TurnEnded:
        """The end of the turn with its answer as a value in `structured`; one that never fitted
        gives the status `error`."""
        if not ended.is_finished:
            return ended
        try:
            return replace(ended, structured=_value_in(ended.result, self.form))
        except ValueError as error:
            failed = FAILED.format(times=self.again + 1, fault=error)
            return replace(ended, status="error", error=failed)


def _value_in(answer: str, form: Form) -> Any:
    """Raises: ValueError with a sentence on what is wrong with the answer."""
    text = answer.strip()
    fenced = _FENCED.match(text)
    try:
        return form.read(fenced[1] if fenced else text)
    except json.JSONDecodeError as error:
        fault = f"it is not JSON ({error})"
    except RecursionError:
        fault = "it is nested too deeply"
    except ValueError as error:
        fault = str(error)
    raise ValueError(fault.rstrip(".") + ".")


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _at(error: Any) -> str:
    """A validator's finding with its place: `$.items[0].name: 3 is not of type 'string'`."""
    return f"{error.json_path}: {shorten(str(error.message), 200)}"


def _no_constant(name: str) -> Iterator[None]:
    raise ValueError(f"{name} is not a JSON value")
