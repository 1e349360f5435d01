"""Events out of bytes, however the bytes are cut."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import RefusedError
from kode.providers.errors import Endpoint
from kode.providers.stream import MAX_EVENT_BYTES, Decoder

ENDPOINT = Endpoint(base_url="http://host/v1", model="m")


def decoded(pieces: list[bytes]) -> tuple[list[tuple[str, object]], bool]:
    decoder = Decoder(ENDPOINT)
    found = [event for piece in pieces for event in decoder.feed(piece)]
    if not decoder.done:
        found += decoder.end()
    return [(event.name, event.data) for event in found], decoder.done


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
    lines += ["data: [DONE]", "", "data: not json", ""] if ends else []
    stream = "".join(line + line_end for line in lines).encode()
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(at)]

    found, done = decoded(pieces)

    assert found == [(name, {"text": text}) for name, text in told]
    assert done == ends


def test_data_over_several_lines_is_one_object() -> None:
    assert decoded([b'data: {"a":\ndata: 1}\n\n']) == ([("", {"a": 1})], False)


def test_the_last_event_needs_no_blank_line() -> None:
    assert decoded([b'data: {"a": 1}']) == ([("", {"a": 1})], False)


@pytest.mark.parametrize("piece", [b"x" * 65536, b"data: " + b"y" * 65536 + b"\n"])
def test_an_event_that_never_ends_is_refused(piece: bytes) -> None:
    with pytest.raises(RefusedError):
        decoded([piece] * (MAX_EVENT_BYTES // 65536 + 2))
