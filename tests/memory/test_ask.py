"""The one way in which memory asks a model, and how its answers are read."""

import asyncio
import json

import pytest
from hypothesis import example, given, strategies as st

from kode.errors import ProviderError
from kode.memory.ask import MAX_CALLS, MAX_PROMPT_CHARS, MemoryModel, read_numbers, read_object
from kode.messages import text_of
from tests.memory.models import Model

FIELDS = ("narrative", "facts")
WHOLE = {"narrative": "n", "facts": ["a"]}


@pytest.mark.parametrize(
    ("answer", "text", "failure"),
    [
        ("yes", "yes", ""),
        ("  ", "", "the model answered with nothing"),
        (ProviderError("down"), "", "down"),
        (ValueError("odd"), "", "odd"),
    ],
)
async def test_an_answer_comes_back_and_a_failure_is_a_value(answer, text, failure):
    reply = await MemoryModel(Model([answer])).ask("system", "prompt", max_output_tokens=5)
    assert (reply.text, reply.failure) == (text, failure)


async def test_no_model_and_too_many_calls_are_failures_too():
    model = Model(["yes"])
    bounded = MemoryModel(model, calls=MAX_CALLS - 1)

    texts = [(await bounded.ask("s", "p", max_output_tokens=5)).text for _ in range(2)]

    assert texts == ["yes", ""]
    assert len(model.requests) == 1
    assert (await MemoryModel(None).ask("s", "p", max_output_tokens=5)).failure


async def test_a_question_without_an_answer_in_time_is_cancelled():
    cancelled = asyncio.Event()

    async def sleep(request):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    reply = await MemoryModel(sleep).ask("s", "p", max_output_tokens=5, timeout_s=0.01)

    assert "within 0.01 s" in reply.failure
    assert cancelled.is_set()


async def test_cancellation_is_not_swallowed():
    with pytest.raises(asyncio.CancelledError):
        await MemoryModel(Model([asyncio.CancelledError()])).ask("s", "p", max_output_tokens=5)


async def test_a_long_prompt_keeps_both_ends():
    model = Model(["yes"])
    prompt = f"begin{'x' * MAX_PROMPT_CHARS}end"

    await MemoryModel(model).ask("s", prompt, max_output_tokens=5)

    sent = text_of(model.requests[0].messages[0])
    assert len(sent) <= MAX_PROMPT_CHARS
    assert sent.startswith("begin")
    assert sent.endswith("end")


@pytest.mark.parametrize("patient", [False, True])
async def test_a_slow_server_gets_time_only_if_nobody_waits(patient):
    expected = []
    model = MemoryModel(Model(["ok"]), expected_s=lambda *tokens: expected.append(tokens) or 0.0)

    await model.ask("system", "prompt", max_output_tokens=5, patient=patient)

    assert expected == ([(3, 5)] if patient else [])


@pytest.mark.parametrize(
    "answer",
    [
        '{"narrative": "n", "facts": ["a"]}',
        '```json\n{"narrative": "n", "facts": ["a"]}\n```',
        'Here it is:\n{"narrative": "n", "facts": ["a"]}\nHope it helps {smile}',
        '{"name": "note", "arguments": {"narrative": "n", "facts": ["a"]}}',
        "{'narrative': 'n', 'facts': ['a'],}",
        '{"narrative": "n", "facts": ["a"]\nI hope this is what you wanted.',
    ],
)
def test_an_object_is_found_whatever_stands_around_it(answer):
    value, _ = read_object(answer, FIELDS)
    assert {name: value[name] for name in WHOLE} == WHOLE


def test_a_cut_off_object_says_that_it_is_incomplete():
    answer = '{"narrative": "all of it", "facts": ["one", "half of tw'
    value, is_complete = read_object(answer, FIELDS)
    assert (value["narrative"], is_complete) == ("all of it", False)


@pytest.mark.parametrize("answer", ["", "no json here", "null", "[]", "42", "{" * 1500])
def test_an_answer_without_an_object_gives_an_empty_one(answer):
    assert read_object(answer, FIELDS) == ({}, False)


CODE = 'Run:\n```bash\nmake test\n```\nand read `x`, use } and \\" here'


def _literal(values):
    """JSON as models write it that leave line feeds in strings as they are."""
    return json.dumps(values, ensure_ascii=False).replace("\\n", "\n")


@pytest.mark.parametrize("write", [json.dumps, _literal])
@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "Here:\n```\n{}\n```\nDone.", "```{}```"]
)
def test_a_fence_inside_an_answer_does_not_end_it(write, around):
    values = {"narrative": CODE, "facts": [CODE, "b"]}
    assert read_object(around.replace("{}", write(values)), FIELDS) == (values, True)


TEXTS = st.text(st.sampled_from('ab \n`{}[],:"\\'), max_size=12) | st.text(max_size=12)


@given(
    TEXTS, st.lists(TEXTS, max_size=3), st.sampled_from(["{}", "```json\n{}\n```"]), st.floats(0, 1)
)
@example('a"}', [], "{}", 0.5)
@example(':"', ["::::]}"], "{}", 0.95)
@example("}:", ["", "::", '::::::""'], "```json\n{}\n```", 0.359375)
def test_half_an_answer_never_passes_for_the_whole(narrative, facts, around, share):
    values = {"narrative": narrative, "facts": facts}
    answer = around.replace("{}", json.dumps(values, ensure_ascii=False))

    half, is_complete = read_object(answer[: round(share * len(answer))], FIELDS)

    assert read_object(answer, FIELDS) == (values, True)
    if is_complete:
        assert half == {name: values[name] for name in half}


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        *((answer, [2, 0]) for answer in ("2,0", "[2, 0]", "2 0 2")),
        *((answer, []) for answer in ("None.", "none")),
        *((answer, None) for answer in ("7", "the first one", "")),
    ],
)
def test_an_order_is_read_strictly(answer, numbers):
    assert read_numbers(answer, 3) == numbers
