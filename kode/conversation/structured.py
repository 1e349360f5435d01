"""A turn whose answer is a value that fits a schema; it has tools like any other. An answer that
does not fit is requested again with its error; the server is then asked to enforce the schema."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kode.engine.context import Context
from kode.errors import ConfigError
from kode.events import TurnEnded
from kode.messages import Text, shorten, text_of
from kode.values import Value, dataclass, replace

if TYPE_CHECKING:
    from kode.conversation.conversation import Steering

MAX_REPEATS = 2  # of the request for an answer that fits
MAX_FAULTS = 5  # that the model is told about one answer

REQUEST = """\
When the work is done, answer with one JSON value and nothing else: no words around it. It must \
fit this JSON schema:
"""
_FENCED = re.compile(r"^```\w*\n(.*)\n```$", re.DOTALL)


class Form(Value):
    """The required form of an answer."""

    schema: Mapping[str, Any]
    """The JSON schema, for the model and its server."""
    parse: Callable[[str], Any]
    """JSON text → value. Raises: ValueError that tells the model what is wrong."""

    def read(self, answer: str) -> Any:
        """The value in an answer, which may be fenced. Raises: ValueError with a sentence."""
        try:
            return self.parse(_FENCED.sub(r"\1", answer.strip()))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{str(error).rstrip('.')}.") from None


def form_of_schema(schema: Any, where: str) -> Form:
    """The form for a JSON schema; its values are plain JSON. `where` names the schema in errors.
    Raises: ConfigError if it is not a valid schema, or refers to something outside of it."""
    from jsonschema import SchemaError, validators
    from pydantic_core import from_json
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not isinstance(schema, dict):
        raise ConfigError(f"{where} is not a JSON schema: it must be an object like {{...}}.")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    references = list[Any]()
    json.loads(json.dumps(schema), object_hook=lambda node: references.append(node.get("$ref")))
    try:
        kind.check_schema(schema)
        root = Resource.from_contents(schema, default_specification=DRAFT202012)
        resolver = Registry().resolver_with_root(root)
        for reference in map(str, filter(None, references)):
            resolver.lookup(reference)
    except SchemaError as error:
        raise ConfigError(f"{where} is not a JSON schema: {_describe_fault(error)}.") from None
    except Unresolvable as error:
        raise ConfigError(
            f"{where} refers to {error.ref}, which is not in it. Put all of it in one schema."
        ) from None
    validator = kind(schema, registry=Registry())  # an empty registry: nothing is fetched

    def parse(text: str) -> Any:
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise ValueError(f"it is not JSON ({error})") from None
        if faults := [_describe_fault(error) for error in validator.iter_errors(value)]:
            raise ValueError("; ".join(faults[:MAX_FAULTS]))
        return value

    return Form(schema=schema, parse=parse)


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

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            faults = error.errors(include_url=False)[:MAX_FAULTS]
            texts = (f"{'.'.join(('$', *map(str, it['loc'])))}: {it['msg']}" for it in faults)
            raise ValueError("; ".join(texts)) from None

    return Form(schema=schema, parse=parse)


@dataclass
class StructuredAnswer:
    """Continues a turn, as the person's words would, while its answer does not fit a form."""

    context: Context
    form: Form
    steering_of_person: "Steering"
    repeats: int = 0

    @property
    def request(self) -> Text:
        """The text that tells the model the form; it goes with the message."""
        schema = json.dumps(self.form.schema, ensure_ascii=False)
        return Text(text=REQUEST + schema, source="note")

    def take_steering(self) -> Sequence[Text]:
        """See `run_turn`: called after each step, and after the answer."""
        if texts := self.steering_of_person():
            return texts
        last = self.context.session.messages[-1]
        try:
            if last.role == "assistant" and self.repeats < MAX_REPEATS:
                self.form.read(text_of(last))
        except ValueError as error:
            self.repeats += 1
            if self.repeats == 1:  # only once: the server may have refused the schema since
                self.context.answer_schema = self.form.schema
            text = f"Your answer does not fit the JSON schema: {error}\nAnswer again with the "
            return (Text(text=f"{text}whole JSON value, and nothing else.", typed=""),)
        return ()

    def conclude(self, ended: TurnEnded) -> TurnEnded:
        """The end of the turn, with its answer as a value, or the status `error`."""
        if not ended.is_finished:
            return ended
        try:
            return replace(ended, structured=self.form.read(ended.result))
        except ValueError as error:
            fault = f"The answer does not fit the schema, asked {self.repeats + 1} times: {error}"
            return replace(ended, status="error", error=f"{fault} Ask for less, or simpler.")


def _describe_fault(error: Any) -> str:
    """A validator's finding with its place: `$.items[0].name: 3 is not of type 'string'`."""
    return f"{error.json_path}: {shorten(str(error.message), 200)}"
