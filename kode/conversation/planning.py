"""The plan of a conversation: made in mode `plan`, edited by the person, approved, worked through.

`kode.session.plan` defines how a plan looks, and its file.
"""

import asyncio
from collections.abc import Sequence

from kode.conversation.open_session import OpenSession
from kode.errors import UserError
from kode.events import FINISHED, PlanKept, TurnEnded
from kode.messages import Text
from kode.permissions.modes import PermissionMode
from kode.prompts import template
from kode.session.entries import AnyEntry, MessageEntry, NoteEntry, PlanEntry, is_turn
from kode.session.messages import effective
from kode.session.plan import plan_in, read_plan, steps_of, without_ticks, write_plan


def notes_before_turn(opened: OpenSession) -> tuple[Text, ...]:
    """What the model must know about the mode, beside the person's message; records what it must
    know about the plan. Raises: StorageError."""
    notes = []
    plan, entries = read_plan(opened.place.plan), effective(opened.session.entries)
    if without_ticks(plan) != without_ticks(_known(entries)):
        edited = f"[The person edited the plan. It now reads:]\n\n{plan}"
        note = edited if plan.strip() else "[The person dropped the plan.]"
        opened.session.append(PlanEntry(text=plan), NoteEntry(text=note))
    if opened.mode == "plan":
        notes.append(template("plan"))
    elif _was_planned(entries):
        notes.append(f"[The mode is now {opened.mode}: changes are possible again.]")
    return tuple(Text(text=note, source="note") for note in notes)


def keep_plan(opened: OpenSession, ended: TurnEnded) -> bool:
    """After a turn in mode `plan`, saves the plan at the end of its answer; returns whether there
    is one. Raises: StorageError."""
    path, plan = opened.place.plan, plan_in(ended.result)
    if ended.status not in FINISHED or not plan or path is None:
        return False
    write_plan(path, plan)
    opened.session.append(PlanEntry(text=plan))
    opened.emit(PlanKept(path=str(path), steps=len(steps_of(plan))))
    return True


async def approve_plan(opened: OpenSession, mode: PermissionMode) -> str:
    """Switches to `mode`; returns the prompt that starts the work, with the plan from disk.

    Raises: UserError if there is no plan; StorageError.
    """
    plan = await asyncio.to_thread(read_plan, opened.place.plan)
    if not steps_of(plan):
        raise UserError(
            "There is no plan yet: /plan switches to mode plan, then say what you want."
        )
    if plan != _known(effective(opened.session.entries)):
        opened.session.append(PlanEntry(text=plan))
    opened.gate.mode = mode
    note = template("plan_approved").replace("{mode}", mode).replace("{plan}", plan.strip())
    opened.note(note)
    return "Go ahead with the plan."


def _known(entries: Sequence[AnyEntry]) -> str:
    """The plan as the model knows it."""
    for entry in reversed(entries):
        if isinstance(entry, PlanEntry):
            return entry.text
    return ""


def _was_planned(entries: Sequence[AnyEntry]) -> bool:
    """Whether the person's last message was sent in mode `plan`."""
    for entry in reversed(entries):
        if isinstance(entry, MessageEntry) and is_turn(entry):
            return any(
                isinstance(part, Text) and part.source == "note" and part.text == template("plan")
                for part in entry.parts
            )
    return False
