import asyncio
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kode.contracts import Request
from kode.errors import ProviderError
from kode.memory.ask import (
    MemoryModel,
    read_numbers,
    read_object,
    says_something,
)
from kode.messages import keep_ends, text_of, user_message
from tests.memory.life import Model, in_messages
from tests.tables import for_each

FIELDS = ("narrative", "facts")


async def test_an_answer_comes_back():
    answer = await MemoryModel(in_messages(Model(["yes"]))).ask(
        "system", "prompt", max_output_tokens=5
    )

    assert (answer.text, answer.failure) == ("yes", "")


@pytest.mark.parametrize(
    ("said", "failure"),
    [(ProviderError("down"), "error"), (ValueError("odd"), "error"), ("  ", "empty")],
)
async def test_a_failure_is_told_not_raised(said, failure):
    answer = await MemoryModel(in_messages(Model([said]))).ask(
        "system", "prompt", max_output_tokens=5
    )

    assert (answer.text, answer.failure) == (None, failure)


DRAFTED = '<think>\nPerhaps {"narrative": "no"}, or 1?\n</think>\n\n'


async def test_reasoning_ahead_of_an_answer_is_no_part_of_it():
    """A local model's, whose server does not send it apart."""

    replies = [f"{DRAFTED}add", DRAFTED, 'a "<think>x</think>"', f"{DRAFTED}add"]
    model = MemoryModel(in_messages(Model(replies)))
    answers = [await model.ask("system", "prompt", max_output_tokens=5) for _ in range(3)]
    whole = await model.reply(Request(system="system", messages=(user_message("prompt"),)))

    assert [answer.text for answer in answers] == ["add", None, 'a "<think>x</think>"']
    assert answers[1].failure == "empty"
    assert text_of(whole.message) == "add"


async def test_no_model_and_too_many_calls_are_failures_too():
    assert (await MemoryModel(None).ask("s", "p", max_output_tokens=5)).failure == "no model"
    model = Model(["yes"])
    door = MemoryModel(in_messages(model), max_calls=2)

    failures = [(await door.ask("s", "p", max_output_tokens=5)).failure for _ in range(3)]

    assert failures == ["", "", "too many calls"]
    assert len(model.asked) == 2


async def test_a_question_without_an_answer_in_time_is_cancelled():
    cancelled = []

    async def sleepy(system, prompt, max_output_tokens):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return ""

    answer = await MemoryModel(in_messages(sleepy)).ask(
        "s", "p", max_output_tokens=5, timeout_s=0.01
    )

    assert answer.failure == "timeout"
    assert cancelled == [True]


async def test_cancellation_is_not_swallowed():
    with pytest.raises(asyncio.CancelledError):
        await MemoryModel(in_messages(Model([asyncio.CancelledError()]))).ask(
            "s", "p", max_output_tokens=5
        )


async def test_a_long_prompt_keeps_both_ends():
    model = Model(["yes"])
    prompt = "begin" + "x" * 1000 + "end"

    await MemoryModel(in_messages(model), max_prompt_chars=200).ask(
        "s", prompt, max_output_tokens=5
    )

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
        ('{"name": "note", "arguments": {"narrative": "n", "facts": ["a"]}}', "inside"),
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
def test_an_answer_that_holds_no_object_gives_none(answer):
    assert read_object(answer, FIELDS) is None


@for_each(
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


CODE = "Run:\n```bash\nmake test\n```\nand read `x`"


def _literal(values):
    """JSON as models write it that leave line feeds in strings as they are."""
    return json.dumps(values, ensure_ascii=False).replace("\\n", "\n")


@for_each("write", [json.dumps, _literal])
@for_each("dress", ["{}", "```json\n{}\n```", "Here:\n```\n{}\n```\nDone.", "```{}```"])
def test_a_fence_inside_an_answer_does_not_end_it(write, dress):
    values = {"narrative": CODE, "facts": [CODE, "b"]}

    found = read_object(dress.replace("{}", write(values)), FIELDS)

    assert found is not None
    assert (found.value, found.complete) == (values, True)


TEXTS = st.text(st.sampled_from('ab \n`{}[],:"\\'), max_size=12) | st.text(max_size=12)


@given(
    TEXTS, st.lists(TEXTS, max_size=3), st.sampled_from(["{}", "```json\n{}\n```"]), st.floats(0, 1)
)
@example('a"}', [], "{}", 0.5)
@example(':"', ["::::]}"], "{}", 0.95)
def test_half_an_answer_never_passes_for_the_whole(narrative, facts, dress, share):
    values = {"narrative": narrative, "facts": facts}
    answer = dress.replace("{}", json.dumps(values, ensure_ascii=False))
    begun = answer[: round(share * len(answer))]

    whole, half = read_object(answer, FIELDS), read_object(begun, FIELDS)

    assert whole is not None
    assert (whole.value, whole.complete) == (values, True)
    if half is not None and half.complete:
        assert {name: half.value[name] for name in half.value} == values


def test_two_whole_fields_followed_by_prose_are_taken():
    answer = '{"narrative": "It ended well.", "facts": ["a"]\nI hope this is what you wanted.'

    found = read_object(answer, FIELDS)

    assert found is not None
    assert found.value == {"narrative": "It ended well.", "facts": ["a"]}
    assert found.complete


def test_an_unescaped_quote_does_not_silently_cut_a_value():
    found = read_object('{"narrative": "He said "hi" and left", "facts": ["a"]', FIELDS)

    assert found is None or not found.complete


# ── how long it waits ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expected_s", "limit_s"), [(0.0, 20.0), (5.0, 20.0), (90.0, 90.0), (1e6, 200.0)]
)
def test_a_slow_server_gets_the_time_it_needs_within_reason(expected_s, limit_s):
    asked = []

    def expected(*tokens):
        asked.append(tokens)
        return expected_s

    door = MemoryModel(None, expected_s=expected)

    assert door.limit_s(20.0, 4_000, 500) == limit_s
    assert asked == [(1_000, 500)]


@pytest.mark.parametrize("patient", [False, True])
async def test_only_a_question_that_nobody_waits_for_gets_that_time(patient):
    asked = []
    door = MemoryModel(
        in_messages(Model(["ok"])), expected_s=lambda *tokens: asked.append(tokens) or 0.0
    )

    await door.ask("system", "prompt", max_output_tokens=5, patient=patient)

    assert asked == ([(3, 5)] if patient else [])


@for_each(
    ("text", "said"),
    [
        ("uses tabs", True),
        ("パッケージはuvで入れる", True),
        ("- Tests: make check", True),
        ("none", False),
        ("Empty.", False),
        ("(nothing)", False),
        ('"mutex"', False),
        ("", False),
        ("  one to three  short facts that will still", False),
        ("short facts", True),
    ],
)
def test_a_word_or_a_placeholder_says_nothing(text, said):
    instructions = 'Answer with {"facts": ["one to three short facts that will still be true"]}.'

    assert says_something(text, instructions) == said
