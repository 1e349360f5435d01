"""`kode schema`: what it prints fits what is written, and stays as it is."""

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kode.cli.commands import schema
from kode.cli.commands.schema import SCHEMAS, schema_of
from kode.cli.screen.output import event_object, failure_object
from kode.cli.screen.printer import to_json
from kode.errors import ConfigError
from kode.events import Event, TurnEnded, result_object
from kode.memory.contract import SnapshotSection
from kode.messages import ServerItem, Text, Thinking, ToolCall
from kode.session.entries import OWN_TYPES, Header, PluginEntry, line_of
from kode.subagents.task import Snapshot, Task
from kode.subagents.task import line_of as sent
from tests.cli.commands.answers import run
from tests.effort import share

KEPT = Path(__file__).parent / "data" / "schemas"
ANY = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=share(25))


JSON = st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=3)


OWN = st.dictionaries(st.text(), JSON, max_size=3)
for part in (Text, Thinking, ToolCall):
    st.register_type_strategy(
        part,
        st.builds(
            part,
            **{
                name: st.none() | OWN if name == "own" else st.from_type(hint)
                for name, hint in get_type_hints(part).items()
            },
        ),
    )
st.register_type_strategy(ServerItem, st.builds(ServerItem, own=OWN, text=st.text()))


def made(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a dataclass; what is `Any` in it is JSON."""
    fields = {}
    for name, hint in get_type_hints(kind).items():
        fields[name] = st.from_type(hint) if "Any" not in str(hint) else JSON
        if hint == Mapping[str, Any] | None:
            fields[name] = st.none() | OWN
        if get_origin(hint) is Mapping:
            values = st.from_type(get_args(hint)[1])
            fields[name] = OWN if "Any" in str(hint) else st.dictionaries(st.text(), values)
        if get_origin(hint) is tuple and "Any" in str(hint):
            fields[name] = st.lists(OWN, max_size=2).map(tuple)
    return st.builds(kind, **fields)


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema_of(name))


def fits(name: str, value: Any) -> None:
    validator(name).validate(value)


@pytest.mark.parametrize("kind", [kind for kind in get_args(Event) if kind is not TurnEnded])
@ANY
@given(data=st.data())
def test_every_event_that_can_be_printed_fits(kind: Any, data: st.DataObject) -> None:
    event = data.draw(made(kind))
    fits("events", json.loads(to_json(event_object(event))))


@ANY
@given(data=st.data())
def test_every_result_that_can_be_printed_fits(data: st.DataObject) -> None:
    ended = replace(data.draw(made(TurnEnded)), files_changed=("/elsewhere/a.py",))
    printed = json.loads(to_json(result_object(ended, None, Path())))
    fits("result", printed)
    fits("events", {"type": "result", **printed})


def test_the_result_of_a_task_that_could_not_start_fits() -> None:
    fits("result", json.loads(failure_object([], ConfigError("x"))))


@pytest.mark.parametrize("kind", [Header, *OWN_TYPES])
@ANY
@given(data=st.data())
def test_every_line_of_a_session_fits(kind: Any, data: st.DataObject) -> None:
    fits("session", json.loads(line_of(data.draw(made(kind)))))


def test_a_line_of_a_plugin_fits() -> None:
    line = json.loads(line_of(PluginEntry(type="x-tally", value={"calls": 2})))
    fits("session", line)
    with pytest.raises(jsonschema.ValidationError):
        fits("session", {**line, "type": "tally"})


def test_an_unknown_or_incomplete_event_does_not_fit() -> None:
    for wrong in ({"type": "weather"}, {"type": "text_delta"}, {"type": "notice", "text": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            fits("events", wrong)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "user", "text": "Hello"},
        {"type": "user", "message": {"role": "user", "content": "Hello"}},
        {"type": "user", "message": {"content": [{"type": "text", "text": "Hello"}]}},
        {"type": "interrupt"},
    ],
)
def test_messages_fit_that_are_taken(line: dict[str, Any]) -> None:
    fits("messages", line)


def test_the_files_of_a_subagent_fit() -> None:
    task = Task(goal="Measure a.txt", permission_mode="plan", agent="reviewer")
    sections = (SnapshotSection(title="Environment", content="Uses tabs."),)
    snapshot = Snapshot(system="tiered", created_at="2026-01-02T03:04:05Z", sections=sections)

    fits("task", task.model_dump(mode="json", exclude_none=True))
    fits("snapshot", json.loads(sent(snapshot)))


@pytest.mark.parametrize("name", [*SCHEMAS, "goal"])
def test_a_schema_is_the_one_that_was_promised(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(schema, [name]) == 0
    printed = json.loads(capsys.readouterr().out)
    kept = KEPT / f"{name}.json"
    assert printed == json.loads(kept.read_text()), (
        f"Programs rely on this form. If the change is meant, run `kode schema {name} > {kept}` "
        "and say in CHANGELOG.md what has changed."
    )
