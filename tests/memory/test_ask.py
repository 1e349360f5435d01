import asyncio

import pytest

from kode.errors import ProviderError
from kode.memory.ask import Door, keep_ends, read_list, read_numbers, read_object
from tests.memory.life import Model

FIELDS = ("narrative", "facts")


async def test_an_answer_comes_back():
    answer = await Door(Model(["yes"])).ask("system", "prompt", max_output_tokens=5)

    assert (answer.text, answer.failure) == ("yes", "")


@pytest.mark.parametrize(
    ("said", "failure"),
    [(ProviderError("down"), "error"), (ValueError("odd"), "error"), ("  ", "empty")],
)
async def test_a_failure_is_told_not_raised(said, failure):
    answer = await Door(Model([said])).ask("system", "prompt", max_output_tokens=5)

    assert (answer.text, answer.failure) == (None, failure)


async def test_no_model_and_too_many_calls_are_failures_too():
    assert (await Door(None).ask("s", "p", max_output_tokens=5)).failure == "no model"
    model = Model(["yes"])
    door = Door(model, max_calls=2)

    failures = [(await door.ask("s", "p", max_output_tokens=5)).failure for _ in range(3)]

    assert failures == ["", "", "too many calls"]
    assert len(model.asked) == 2


async def test_a_question_without_an_answer_in_time_is_cancelled():
    cancelled = []

    async def sleepy(system, prompt, max_output_tokens):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return ""

    answer = await Door(sleepy).ask("s", "p", max_output_tokens=5, timeout_s=0.01)

    assert answer.failure == "timeout"
    assert cancelled == [True]


async def test_cancellation_is_not_swallowed():
    with pytest.raises(asyncio.CancelledError):
        await Door(Model([asyncio.CancelledError()])).ask("s", "p", max_output_tokens=5)


async def test_a_long_prompt_keeps_both_ends():
    model = Model(["yes"])
    prompt = "begin" + "x" * 1000 + "end"

    await Door(model, max_prompt_chars=200).ask("s", prompt, max_output_tokens=5)

    sent = model.asked[0][1]
    assert len(sent) <= 200
    assert sent.startswith("begin")
    assert sent.endswith("end")
    assert "left out" in sent


def test_a_short_text_is_not_cut():
    assert keep_ends("abc", 3) == "abc"


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        ('{"narrative": "n", "facts": ["a"]}', "whole"),
        ('```json\n{"narrative": "n", "facts": ["a"]}\n```', "whole"),
        ('Here it is:\n{"narrative": "n", "facts": ["a"]}\nHope it helps {smile}', "inside"),
        ('"narrative": "n",\n"facts": ["a"]', "fields"),
        ("{'narrative': 'n', 'facts': ['a'],}", "repaired"),
    ],
)
def test_an_object_is_found_in_whatever_dress(answer, how):
    found = read_object(answer, FIELDS)

    assert found is not None
    assert found.value == {"narrative": "n", "facts": ["a"]}
    assert found.how == how


def test_a_brace_inside_a_string_closes_nothing():
    found = read_object('So: {"narrative": "use } and \\" here", "facts": []} done', FIELDS)

    assert found is not None
    assert found.value["narrative"] == 'use } and " here'


def test_a_cut_off_object_says_that_it_is_incomplete():
    found = read_object('{"narrative": "all of it", "facts": ["one", "half of tw', FIELDS)

    assert found is not None
    assert found.value["narrative"] == "all of it"
    assert not found.complete


@pytest.mark.parametrize("answer", ["", "no json here", "null", "[]", "42", "{" * 5000])
def test_what_holds_no_object_gives_none(answer):
    assert read_object(answer, FIELDS) is None


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('["a", "b"]', ["a", "b"]),
        ('```\n["a", "b"]\n```', ["a", "b"]),
        ('Sure! ["a", "b"] there', ["a", "b"]),
        ('{"facts": ["a", "b"]}', ["a", "b"]),
        ("['a', 'b',]", ["a", "b"]),
        ('["a", "b', None),
        ("nothing", None),
        ("", None),
    ],
)
def test_a_list_is_found_and_half_a_list_is_none(answer, value):
    assert read_list(answer) == value


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("2,0", [2, 0]),
        ("[2, 0]", [2, 0]),
        ("2 0 2", [2, 0]),
        ("None.", []),
        ("none", []),
        ("7", None),
        ("the first one", None),
        ("", None),
    ],
)
def test_an_order_is_read_strictly(answer, numbers):
    assert read_numbers(answer, 3) == numbers
