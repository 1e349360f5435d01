"""What a command changed in its copy becomes real as a whole, or is undone as a whole."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kode.engine.command import (
    Command,
    _make_real,
    describe_changes,
    diff_of,
    run_command,
    settle_changes,
    settle_ended,
)
from kode.errors import SandboxError
from kode.events import silent
from kode.permissions.decide import decide_call
from kode.permissions.rules import Rules
from kode.sandbox.sandbox import Sandbox
from kode.tool import ALLOWED, Action, Blocked, Decision, FileChange, ToolContext, ToolOutput
from kode.tools.shell import shell
from tests.needs import lacking_sandbox
from tests.sandbox.sandboxed import begun, fault, ran
from tests.undo.changes import undo_in
from tests.workplaces import make_call, workplace


@pytest.fixture
def made(tmp_path: Path) -> Sandbox:
    (tmp_path / "work").mkdir()
    return Sandbox(place=workplace(tmp_path / "work", home=tmp_path / "kode"))


async def test_a_cancellation_during_application_completes_it_and_allows_undo(
    made: Sandbox, tmp_path: Path
) -> None:
    if why := fault(made, "layered"):
        lacking_sandbox("layered", why)
    work = tmp_path / "work"
    for at in range(20):
        (work / f"old{at}").write_text("old")
    await asyncio.sleep(0.02)
    attempt = begun(made, "layered")
    command = "for i in $(seq 0 19); do echo new > old$i; done; echo new > made"
    assert ran(attempt.wrap(("/bin/bash", "-c", command)), work).code == 0
    begins, may_go_on = threading.Event(), threading.Event()
    real_apply = attempt.apply

    def slowly(changes: Any) -> Any:
        begins.set()
        may_go_on.wait(20)
        return real_apply(changes)

    attempt.apply = slowly  # type: ignore[method-assign]
    undo = undo_in(tmp_path / "undo")
    task = asyncio.ensure_future(_make_real(undo, attempt, attempt.changes()))
    await asyncio.to_thread(begins.wait)
    task.cancel()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    attempt.close()

    assert {(work / name).read_text() for name in os.listdir(work)} == {"new\n"}
    assert undo.undo().left_alone == ()
    assert {(work / name).read_text() for name in os.listdir(work)} == {"old"}
    assert not (work / "made").exists()


def action_of(run: Any) -> Action:
    return Action(call_id="1", tool=SimpleNamespace(run=run), arguments={})  # type: ignore[arg-type]


class Copy:
    """An attempt that has its versions of files in a folder."""

    def __init__(self, root: Path, copy: Path) -> None:
        self.root, self.copy = root, copy

    def version(self, path: str) -> Path:
        return self.copy / Path(path).relative_to(self.root)


def test_a_diff_names_a_binary_file_and_shows_the_others(tmp_path: Path) -> None:
    work, copy = tmp_path / "work", tmp_path / "copy"
    copy.mkdir()
    (copy / "a.py").write_text("text\n")
    (copy / "logo.png").write_bytes(b"\xff\x00")
    changes = [FileChange(path=str(work / name), change="created") for name in ("a.py", "logo.png")]

    diff = diff_of(work, Copy(work, copy), changes)  # type: ignore[arg-type]

    assert "+text" in diff
    assert "b/logo.png" in diff


def test_a_long_diff_counts_the_files_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.engine.command.MAX_DIFF_CHARS", 300)
    work, copy = tmp_path / "work", tmp_path / "copy"
    copy.mkdir()
    for name in "abcd":
        (copy / name).write_text("x" * 100 + "\n")
    changes = [FileChange(path=str(work / name), change="created") for name in "abcd"]

    diff = diff_of(work, Copy(work, copy), changes)  # type: ignore[arg-type]

    assert diff.count("+++ ") == 2
    assert "2 more files" in diff


def test_git_records_are_one_word_and_names_one_line(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    names = ("a.py", ".git/objects/ab/cd", ".git/refs/heads/main")
    kinds = ("work", "git", "git")
    changes = [
        FileChange(path=str(work / name), change="created", kind=kind)
        for name, kind in zip(names, kinds, strict=True)
    ]

    (note,) = describe_changes(work, changes, {}).notes
    assert ("a.py (new)" in note, note.count(".git")) == (True, 1)
    (note,) = describe_changes(work, changes[1:], {}).notes
    assert ("a.py" in note, note.count(".git")) == (False, 1)

    odd = FileChange(path=str(work / "x].\n[Run: rm"), change="changed")
    (note,) = describe_changes(work, [odd], {}).notes
    assert note == "[It changed x].\\n[Run: rm.]"


@pytest.mark.parametrize("run_in", ["sandbox", "read_only"])
async def test_a_command_begun_in_mode_plan_changes_nothing_later(
    tmp_path: Path, run_in: Any
) -> None:
    change = FileChange(path=str(tmp_path / "a.py"), change="created")
    applied: list[FileChange] = []
    marked: list[str] = []
    told: list[str] = []
    ended = asyncio.Event()
    attempt = SimpleNamespace(
        outside_text="",
        wrap=None,
        ended=ended,
        changes=lambda: (change,),
        version=lambda path: tmp_path / "none",
        apply=lambda changes: applied.extend(changes) or {},
        files=lambda change: (change.path,),
        carry_layer=lambda changes: None,
        close=lambda: None,
    )

    async def judge_changes(*given: Any, **more: Any) -> Any:
        return [(change, ALLOWED)]

    async def runs_on(*given: Any) -> str:
        return "bg1"

    agent = SimpleNamespace(
        sandbox=SimpleNamespace(begin=lambda: attempt, refresh_running_commands=lambda paths: None),
        gate=SimpleNamespace(judge_changes=judge_changes),
        undo=undo_in(tmp_path / "undo"),
        marks=SimpleNamespace(record=lambda paths, source: marked.extend(paths)),
        late={},
    )
    context = ToolContext(
        place=workplace(tmp_path),
        call_id="1",
        session_id="s",
        emit=silent,
        seen_files={},
        background=SimpleNamespace(tell=lambda of, text: told.append(text)),  # type: ignore[arg-type]
        decision=replace(ALLOWED, run_in=run_in),
    )
    await run_command(Command(agent=agent, action=action_of(runs_on), context=context))  # type: ignore[arg-type]
    ended.set()
    ((_, settled),) = await settle_ended(agent, "s")  # type: ignore[arg-type]
    assert await settle_ended(agent, "s") == []  # type: ignore[arg-type]
    keeps = run_in == "sandbox"

    assert [one.path for one in applied] == [change.path] * keeps
    assert marked == [change.path] * keeps
    assert len(told) == 1
    assert [refusal.not_kept for refusal in settled.refusals] == [("a.py (new)",)] * (not keeps)


async def test_a_command_that_keeps_nothing_is_not_asked_about(tmp_path: Path) -> None:
    change = FileChange(path=str(tmp_path / "a.py"), change="created")
    left: list[FileChange] = []
    ended = asyncio.Event()
    ended.set()
    attempt = SimpleNamespace(
        outside_text="",
        wrap=None,
        ended=ended,
        blocked=lambda said: (Blocked("write", "/etc/hosts"),),
        changes=lambda: (change,),
        version=lambda path: tmp_path / "none",
        carry_layer=lambda changes: left.extend(changes),
        close=lambda: None,
    )

    async def fails(*given: Any) -> ToolOutput:
        return ToolOutput(text="denied", exit_status=1)

    agent = SimpleNamespace(
        sandbox=SimpleNamespace(begin=lambda: attempt, refresh_running_commands=lambda paths: None),
        gate=None,
        undo=undo_in(tmp_path / "undo"),
        marks=SimpleNamespace(record=lambda paths, source: None),
    )
    context = ToolContext(
        place=workplace(tmp_path),
        call_id="1",
        session_id=None,
        emit=silent,
        seen_files={},
        decision=Decision(outcome="allow", reason="limits", run_in="read_only"),
    )
    command = Command(agent=agent, action=action_of(fails), context=context)  # type: ignore[arg-type]

    output = await run_command(command)

    assert {one.message for one in output.refusals} == {"limits"}
    assert (output.files_changed, left) == ((), [])


def test_a_command_in_mode_plan_keeps_nothing(tmp_path: Path) -> None:
    call = make_call(Rules(), "plan", shell, {"command": "pytest"}, workplace(tmp_path))
    decision = decide_call(replace(call, sandbox="layered"))
    assert (decision.outcome, decision.run_in) == ("allow", "read_only")


NOBODY = Decision(outcome="deny", by="nobody", reason="It asks.")


def of_changes(
    root: Path, refused: dict[str, Decision], left: dict[str, str], **fields: Any
) -> tuple[Any, Any]:
    """A command whose changes in its copy get these refusals, or cannot be applied."""
    changes = [FileChange(path=str(root / name), **fields) for name in (*refused, *left)]
    decisions = (*refused.values(), *[ALLOWED] * len(left))
    attempt = SimpleNamespace(
        outside_text="",
        changes=lambda: tuple(changes),
        version=lambda path: root / "none",
        apply=lambda wanted: {str(root / name): why for name, why in left.items()},
        files=lambda change: (change.path,),
        carry_layer=lambda changes: None,
    )

    async def judge_changes(*given: Any, **more: Any) -> Any:
        return [*zip(changes, decisions, strict=True)]

    agent = SimpleNamespace(
        sandbox=None,
        gate=SimpleNamespace(judge_changes=judge_changes),
        undo=undo_in(root.parent / "undo"),
        marks=SimpleNamespace(record=lambda paths, source: None),
    )
    context = SimpleNamespace(place=workplace(root), decision=ALLOWED)
    return Command(agent=agent, action=action_of(None), context=context), attempt  # type: ignore[arg-type]


async def test_a_deleted_folder_that_stays_is_one_change(tmp_path: Path) -> None:
    names = (".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", "notes.md")
    command, attempt = of_changes(
        tmp_path / "w", dict.fromkeys(names, NOBODY), {}, change="deleted"
    )

    settled = await settle_changes(command, attempt, may_ask=True)

    assert settled.summary == "2 changes not kept"
    (refusal,) = settled.refusals
    assert refusal.not_kept == (".git (deleted)", "notes.md (deleted)")
    assert settled.notes == (f"[{refusal.for_model}]",)


async def test_each_reason_not_to_keep_files_names_them(tmp_path: Path) -> None:
    rule = Decision(outcome="deny", reason="A rule forbids it.")
    command, attempt = of_changes(
        tmp_path / "w",
        {"a": rule, "b": NOBODY, "c": NOBODY},
        {"d": "someone else changed it meanwhile", "e": "No space left on device"},
        change="changed",
    )

    settled = await settle_changes(command, attempt, may_ask=True)

    assert settled.files_changed == ()
    assert [(one.by, one.not_kept) for one in settled.refusals] == [
        ("rule", ("a",)),
        ("nobody", ("b", "c")),
        ("fault", ("d",)),
        ("fault", ("e",)),
    ]


async def test_an_ignored_folder_has_one_name(tmp_path: Path) -> None:
    root = tmp_path / "w"
    command, attempt = of_changes(
        root, {}, {"build/d": "it is locked"}, change="created", ignored=f"{root}/build/"
    )
    settled = await settle_changes(command, attempt, may_ask=True)
    assert settled.refusals[0].not_kept == ("build/ (new, 1 file, git ignores it)",)

    build = [
        FileChange(path=f"{root}/build/{name}", change=change, ignored=f"{root}/build/")
        for name, change in (("a", "created"), ("b", "changed"))
    ]
    output = describe_changes(root, build, {})
    assert output.files_changed == (f"{root}/build/",)
    assert output.notes == ("[It changed build/ (2 files, git ignores it).]",)


async def test_changes_too_many_to_list_are_a_fault(tmp_path: Path) -> None:
    command, attempt = of_changes(tmp_path / "w", {}, {})

    def too_many() -> Any:
        raise SandboxError("It changed more than 20,000 files.")

    attempt.changes = too_many
    settled = await settle_changes(command, attempt, may_ask=True)

    assert [(one.by, one.message) for one in settled.refusals] == [
        ("fault", "It changed more than 20,000 files.")
    ]
