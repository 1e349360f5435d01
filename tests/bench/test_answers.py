"""Stated in one process, asked in another: what the benchmark asks, and what it calls right."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import answers
from bench.answers import DISTRACTORS, cases, facts, figures
from bench.answers_scripted import answer

SYSTEMS = ("tiered", "vault", "journal", "notes")


def test_no_two_facts_share_a_thing_or_value() -> None:
    asked, others = facts(10, seed=7)
    everything = [*asked, *others]

    assert len(others) == DISTRACTORS
    assert len({fact.thing for fact in everything}) == 210
    assert len({word for fact in everything for word in (fact.value, fact.old_value)}) == 420


def test_a_seed_always_gives_the_same_facts() -> None:
    assert facts(3, seed=1) == facts(3, seed=1)
    assert facts(3, seed=1) != facts(3, seed=2)


def test_one_system_is_enough_where_memory_is_unused() -> None:
    found = cases(SYSTEMS, ("stated", "without", "notes file"))

    assert [case for case in found if case[1] == "without"] == [("tiered", "without")]
    assert [system for system, condition in found if condition == "stated"] == list(SYSTEMS)


def request(*texts: str, tools: tuple[str, ...] = ("shell",)) -> dict[str, Any]:
    return {
        "tools": [{"type": "function", "function": {"name": name}} for name in tools],
        "messages": [{"role": "system", "content": texts[0]}]
        + [{"role": "user", "content": text} for text in texts[1:]],
    }


def test_the_script_answers_with_the_newest_fact_sent() -> None:
    asked, _ = facts(1, seed=1)
    (fact,) = asked

    assert answer(request("kode", fact.question)) == {"text": "unknown"}
    known = f"{fact.old_sentence}\n{fact.sentence}"
    assert answer(request(known, fact.question)) == {"text": fact.value}


def measured(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    assert answers.main([*words, "--json"]) == 0
    found: dict[str, dict[str, Any]] = json.loads(capsys.readouterr().out)["answers"]
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_script_is_right_only_with_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    words = ("--conditions", "stated,without,notes file", "--out", str(out))

    found = measured(capsys, *words)

    assert set(found) == {"without", "notes file", *(f"{system} stated" for system in SYSTEMS)}
    for name, group in found.items():
        assert group["right"] == (0 if name == "without" else 1), (name, group)
        assert (group["other"], group["failed"]) == (0, 0), (name, group)
    lines = out.read_text()
    assert measured(capsys, *words) == found
    assert out.read_text() == lines


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_changed_or_buried_fact_is_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--systems", "tiered,notes", "--conditions", "changed,distractors")

    for name, group in measured(capsys, *words).items():
        assert (group["right"], group["stale"], group["other"]) == (1, 0, 0), name


def test_an_answer_with_an_outdated_value_is_stale() -> None:
    row = {"system": "tiered", "condition": "changed", "right": False, "kept": True, "stale": True,
           "other": False, "status": "success", "requests": 1, "input_tokens": 10,
           "seconds": 0.5}  # fmt: skip

    found = figures([row])["tiered changed"]

    assert (found["asked"], found["right"], found["kept"], found["stale"]) == (1, 0, 1, 1)


def test_the_script_names_the_line_that_a_fact_changes() -> None:
    asked, _ = facts(1, seed=1)
    (fact,) = asked
    question = (
        f'"narrative"\nThe known facts:\n1. The shop is online.\n2. {fact.old_sentence}\n\n'
        f"The transcript of a session:\nUser: It is so: {fact.sentence}\nkode: Noted."
    )

    noted = json.loads(answer(request(question, tools=()))["text"])

    words = f"It is so: {fact.sentence}"
    row = {"fact": fact.sentence, "words": words, "how": "changes", "line": 2}
    assert noted["facts"] == [row]
