"""Properties of what all formats share: events out of bytes, thoughts in a text,
messages encoded once."""

import itertools
import json
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.events import TextDelta, ThinkingDelta
from kode.messages import Message, Text, user_message
from kode.providers.chat import form_of, message_bytes
from kode.providers.errors import Endpoint
from kode.providers.request import CONTEXT_REPLY, FEW, EncodedMessages
from kode.providers.stream import Decoder
from kode.registry import ProviderRow
from tests.providers.conftest import Connect
from tests.providers.line import target_of
from tests.providers.test_identity import shared_line
from tests.providers.test_replies import chat, chunk, outline
from tests.tables import for_each

# ── bytes ────────────────────────────────────────────────────────────────────────────────────


def decoded(pieces: list[bytes]) -> tuple[list[tuple[str, object]], bool]:
    decoder = Decoder(Endpoint(base_url="http://host/v1", model="m"))
    found = [event for part in pieces for event in decoder.feed(part)] + [*decoder.end()]
    names = [event.name for event in found]
    end = names.index("[DONE]") if "[DONE]" in names else len(found)
    return [(event.name, event.data) for event in found[:end]], end < len(found)


@given(
    st.lists(st.tuples(st.sampled_from(["", "ping", "müde"]), st.text()), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(min_value=0, max_value=400), max_size=12),
)
def test_any_cutting_of_any_line_ends_gives_the_same_events(
    told: list[tuple[str, str]], line_end: str, ends: bool, cuts: list[int]
) -> None:
    lines = []
    for name, text in told:
        lines += [f"event: {name}"] if name else []
        lines += [": a comment", f"data: {json.dumps({'text': text}, ensure_ascii=True)}", ""]
    lines += ["data: [DONE]", ""] if ends else []
    stream = "".join(line + line_end for line in lines).encode()
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})

    found = decoded([stream[a:b] for a, b in itertools.pairwise(at)])

    assert found == ([(name, {"text": text}) for name, text in told], ends)


@for_each("data", [b'data: {"a":\ndata: 1}\n\n', b'data: {"a": 1}'])
def test_an_event_may_have_several_lines_or_no_end(data: bytes) -> None:
    assert decoded([data]) == ([("", {"a": 1})], False)


# ── texts ────────────────────────────────────────────────────────────────────────────────────

HARMONY = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
THOUGHTS = {
    "Hello <think>x</think>": ("", "Hello <think>x</think>"),
    "\n Hello": ("", "\n Hello"),
    "<think>\nHm.\n</think>\n\nYes.": ("\nHm.\n", "Yes."),
    " <thinking>Hm.</thinking>Yes.": ("Hm.", "Yes."),
    "<think>Hm. </thin": ("Hm. </thin", ""),
    "<thin air": ("", "<thin air"),
    f"{HARMONY}<|start|>assistant<|channel|>final<|message|>Yes.": ("Hm.", "Yes."),
    f"{HARMONY}<|channel|>commentary": ("Hm.", "<|channel|>commentary"),
}


@pytest.mark.parametrize("written", THOUGHTS)
@shared_line
@given(cuts=st.lists(st.integers(0, 70), max_size=6))
async def test_written_thoughts_are_found_wherever_pieces_end(
    reuse: Connect, written: str, cuts: list[int]
) -> None:
    """A local server leaves them in the text of a reply, of which they are no part."""
    line = reuse("vllm")
    line.events.clear()
    places = [0, *sorted(cuts), len(written)]
    pieces = [written[a:b] for a, b in itertools.pairwise(places)]

    message = await line.play(*chat(*(chunk(content=text) for text in pieces)))

    thought, text = THOUGHTS[written]
    expected = ([[thought, ""]] if thought else []) + ([text] if text else [])
    assert outline(message) == ("end", *expected)
    assert ["".join(line.shown(kind)) for kind in (ThinkingDelta, TextDelta)] == [thought, text]


# ── messages ─────────────────────────────────────────────────────────────────────────────────

encode = partial(message_bytes, form=form_of(target_of(ProviderRow(name="x"))))
STEPS = st.lists(
    st.sampled_from(["append", "append", "silent", "replace", "shorten", "another"]), max_size=40
)


def walk(steps: list[str], check: Callable[[list[Message]], None]) -> None:
    """Calls `check` with a session's list after each step, and with others in between."""
    messages = [user_message(f"message {number} at first") for number in range(FEW - 2)]
    for number, step in enumerate(steps):
        match step:
            case "append":
                messages.append(user_message(f"message {number}"))
            case "silent":  # an answer without text has no wire form
                messages.append(Message(role="assistant", parts=()))
            case "replace":
                messages = [user_message("anew"), *messages[1:]]
            case "shorten":
                messages = messages[: len(messages) // 2]
            case _:
                check([user_message(f"beside {number}")] * (number % (2 * FEW)))
        check(messages)


@given(STEPS, st.booleans())
def test_encoding_step_by_step_equals_encoding_afresh(steps: list[str], joins: bool) -> None:
    encoded = EncodedMessages(encode, joins_users=joins)

    def check(messages: list[Message]) -> None:
        assert encoded.of(messages) == EncodedMessages(encode, joins_users=joins).of(messages)

    walk(steps, check)


INDEX = Message(role="user", parts=(Text(text="Available memory: ...", source="memory"),))
EPISODE = Text(text="an episode", source="memory")
FACTS = Text(text="facts", source="memory", section_name="recall")
PLACE = Text(text="# Where you are", source="opening")
QUESTION = Text(text="Which port?")


@for_each(
    ("messages", "sent"),
    [
        # User messages in a row become one.
        ([user_message("a"), user_message("b"), Message(role="assistant", parts=(QUESTION,)),
          user_message("c"), Message(role="assistant", parts=()), user_message("d")],
         [("user", "a\n\nb"), ("assistant", "Which port?"), ("user", "c\n\nd")]),
        ([INDEX, Message(role="user", parts=(EPISODE, Text(text="a"))), user_message("b")],
         [("user", "Available memory: ...\n\nan episode\n\na\n\nb")]),
        # Words stand alone behind memory that was recorded for a small model.
        ([Message(role="user", parts=(FACTS,)), Message(role="user", parts=(PLACE, QUESTION))],
         [("user", "facts\n\n# Where you are"), ("assistant", CONTEXT_REPLY.parts[0].text),
          ("user", "Which port?")]),
        ([Message(role="user", parts=(PLACE, QUESTION))],
         [("user", "# Where you are\n\nWhich port?")]),
    ],
)  # fmt: skip
async def test_neighbours_and_context_stand_as_weak_models_take_them(
    connect: Connect, messages: list[Message], sent: list[tuple[str, str]]
) -> None:
    body = await connect("openai").sent(*messages)

    assert [(message["role"], message["content"]) for message in body["messages"]] == sent
