"""A turn whose answer is a value that fits a schema.

The turn is like any other, with its tools. An answer that does not fit is requested again with its
error, and the server must then enforce the schema, if it can.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kode.errors import ConfigError, RefusedError
from kode.events import FINISHED, Emit, Notice, TurnEnded
from kode.messages import Message, Text, text_of
from kode.provider import ModelInfo, Provider, Request

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation, Steering

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
                f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['msg']}"
                for one in error.errors(include_url=False)[:5]
            )
            raise ValueError("; ".join(faults)) from None

    return Form(schema=schema, read=read)


@dataclass
class Insistence:
    """Continues a turn, as the person's words would, while its answer does not fit a form. As a
    provider it has the server enforce the schema from the first answer that does not; a server that
    cannot is asked as usual."""

    conversation: "Conversation"
    form: Form
    steering_of_person: "Steering"
    provider: Provider
    """The one that is asked."""
    enforces: bool = False
    again: int = 0

    @property
    def request(self) -> Text:
        """What the model is told of the form, with the message."""
        schema = json.dumps(self.form.schema, ensure_ascii=False)
        return Text(text=WANTED.format(schema=schema), source="note")

    def wrap_provider(self, provider: Provider) -> "Insistence":
        """Asks this provider from now on."""
        self.provider = provider
        return self

    def steering(self) -> Sequence[Text]:
        """See `run_turn`: called after each step, and after the answer."""
        if texts := self.steering_of_person():
            return texts
        last = self.conversation.session.messages[-1]
        if last.role != "assistant" or self.again == MAX_AGAIN:
            return ()
        try:
            _value_in(text_of(last), self.form)
        except ValueError as error:
            self.again += 1
            # Later calls leave it alone: the server may have refused.
            self.enforces |= self.again == 1
            return (Text(text=AGAIN.format(fault=error), typed=""),)
        return ()

    def conclude(self, ended: TurnEnded) -> TurnEnded:
        """The end of the turn with its answer as a value in `structured`; one that never fitted
        gives the status `error`."""
        if ended.status not in FINISHED:
            return ended
        try:
            return replace(ended, structured=_value_in(ended.result, self.form))
        except ValueError as error:
            failed = FAILED.format(times=self.again + 1, fault=error)
            return replace(ended, status="error", error=failed)

    @property
    def name(self) -> str:
        return self.provider.name

    @property
    def model(self) -> str:
        return self.provider.model

    @property
    def info(self) -> ModelInfo:
        return self.provider.info

    async def reply(self, request: Request, emit: Emit) -> Message:
        """See `provider.Provider`. The schema applies only to the turn itself, which has tools,
        not to requests of memory or a compaction."""
        if self.enforces and request.tools and not request.aside:
            try:
                asked = replace(request, answer_schema=self.form.schema)
                return await self.provider.reply(asked, emit)
            except RefusedError as error:
                self.enforces = False
                text = f"The server does not hold answers to this schema; asked without. {error}"
                self.conversation.settings.emit(Notice(text=text))
        return await self.provider.reply(request, emit)

    async def aclose(self) -> None:
        """See `provider.Provider`."""
        await self.provider.aclose()


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
    found = str(error.message)
    return f"{error.json_path}: {found if len(found) <= 200 else found[:199] + '…'}"


def _no_constant(name: str) -> Iterator[None]:
    raise ValueError(f"{name} is not a JSON value")
