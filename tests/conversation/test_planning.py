"""A plan, from the mode in which it is made to its last tick, in a conversation with real parts."""

import pytest

from kode.errors import UserError
from kode.events import PlanKept
from kode.messages import Text
from kode.prompts import template
from kode.session.entries import PlanEntry
from kode.session.plan import Plan

PLAN = "# Plan\n\n- [ ] write a.txt\n- [ ] check it\n"


def last_request(talk) -> str:
    """What the person's newest message holds, what kode adds included."""
    message = [one for one in talk.session.messages if one.role == "user"][-1]
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


async def test_an_answer_in_mode_plan_ends_with_a_saved_plan(opened, events):
    talk = await opened({"text": f"I looked.\n\n{PLAN}"})
    talk.set_permission_mode("plan")

    await talk.turn("write a.txt")

    assert template("plan") in last_request(talk)
    assert talk.agent.place.plan.read_text() == PLAN
    assert talk.agent.place.plan.stat().st_mode & 0o777 == 0o600
    assert PlanKept(path=str(talk.agent.place.plan), steps=2) in events
    assert talk.fresh_plan


async def test_an_answer_elsewhere_or_lacking_a_plan_leaves_it_alone(opened):
    talk = await opened({"text": PLAN}, {"text": "It has two functions."}, {"text": "# Plan\n"})
    await talk.turn("plan this")
    assert Plan(talk.agent.place.plan).text == ""

    talk.set_permission_mode("plan")
    await talk.turn("what is in a.py?")
    assert Plan(talk.agent.place.plan).text == ""
    assert not talk.fresh_plan

    talk.set_permission_mode("ask")
    await talk.turn("now do it")
    assert "is now ask" in last_request(talk)


async def test_approving_switches_the_mode_and_sends_the_plan_on_disk(opened):
    todo = {"name": "todo", "arguments": {"items": [{"text": "Write a.txt", "status": "done"}]}}
    talk = await opened({"text": PLAN}, {"calls": [todo]}, {"text": "done"})
    with pytest.raises(UserError, match="no plan yet"):
        await talk.approve_plan("auto-edit")
    talk.set_permission_mode("plan")
    await talk.turn("write a.txt")
    edited = PLAN.replace("check it", "check it twice")
    talk.agent.place.plan.write_text(edited)

    await talk.turn(await talk.approve_plan("auto-edit"))

    assert talk.gate.state.mode == "auto-edit"
    assert edited.strip() in last_request(talk)
    assert "The person edited" not in last_request(talk)
    assert Plan(talk.agent.place.plan).text == edited.replace("[ ] write", "[x] write")


async def test_an_edited_plan_reaches_the_model_once(opened):
    talk = await opened({"text": PLAN}, {"text": "I see"}, {"text": "yes"}, {"text": "dropped"})
    talk.set_permission_mode("plan")
    await talk.turn("write a.txt")
    edited = PLAN + "- [ ] and a README\n"
    talk.agent.place.plan.write_text(edited)

    await talk.turn("better?")
    assert f"reads:]\n\n{edited}" in last_request(talk)
    await talk.turn("sure?")
    assert "edited the plan" not in last_request(talk)
    talk.agent.place.plan.unlink()
    await talk.turn("and now?")
    assert "dropped the plan" in last_request(talk)
    assert [one.text for one in talk.session.entries if isinstance(one, PlanEntry)] == [
        PLAN,
        edited,
        "",
    ]


async def test_a_session_that_is_continued_has_its_plan(opened):
    talk = await opened({"text": PLAN})
    talk.set_permission_mode("plan")
    await talk.turn("write a.txt")
    session_id = talk.session.id
    await talk.close()

    again = await opened({"text": "ok"}, session_id=session_id)
    assert Plan(again.agent.place.plan).text == PLAN
    await again.turn("hello")
    assert "edited the plan" not in last_request(again)


async def test_a_session_that_is_kept_nowhere_keeps_no_plan(opened):
    talk = await opened({"text": PLAN}, keep_session=False)
    talk.set_permission_mode("plan")
    await talk.turn("write a.txt")
    assert talk.agent.place.plan is None
    assert not talk.fresh_plan
