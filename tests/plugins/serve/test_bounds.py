"""Where, in which mode, how deep and at what cost clients may have kode work."""

from pathlib import Path
from typing import Any

import pytest

from kode import programs
from kode.errors import ConfigError
from kode.plugins.serve.command import roots_of
from tests.plugins.serve.conftest import Connect
from tests.workplaces import empty_repository

pytestmark = pytest.mark.parametrize("connect", ["auto"], indirect=True)


async def test_only_folders_below_a_root_are_worked_in(
    connect: Connect, play: Any, project: Path, tmp_path: Path
) -> None:
    play({"text": "done"})
    (tmp_path / "other").mkdir()
    (project / "below").mkdir()
    (project / "link").symlink_to(tmp_path / "other")
    async with connect() as call:
        for outside in (tmp_path / "other", project / "link", project / "..", Path("/")):
            fault = await call.fault("kode_start", prompt="x", cwd=str(outside))
            assert f"--root {outside.resolve()}" in fault
        assert "does not exist" in await call.fault(
            "kode_start", prompt="x", cwd=str(project / "no")
        )
        state = await call("kode_start", prompt="x", cwd=str(project / "below"))

    assert state["status"] == "done"


async def test_sessions_of_other_folders_are_neither_listed_nor_taken_up(
    connect: Connect, play: Any, project: Path, tmp_path: Path
) -> None:
    play({"text": "done"})
    (tmp_path / "other").mkdir()
    async with connect(roots=(tmp_path / "other",)) as call:
        state = await call("kode_start", prompt="secret plans", cwd=str(tmp_path / "other"))
    async with connect() as call:
        assert await call("kode_sessions") == {"sessions": []}
        for tool in ("kode_reply", "kode_diff", "kode_undo"):
            given = {"prompt": "x"} if tool == "kode_reply" else {}
            fault = await call.fault(tool, session=state["session"], **given)
            assert "folder" in fault
            assert "secret plans" not in fault


async def test_mode_full_takes_a_flag_of_the_server(
    connect: Connect, play: Any, project: Path
) -> None:
    play({"text": "done"}, permissions={"mode": "full"})
    async with connect() as call:
        fault = await call.fault("kode_start", prompt="x", cwd=str(project), mode="full")
        state = await call("kode_start", prompt="x", cwd=str(project))
        assert call.conversation(state["session"]).mode == "ask"
        again = await call.fault("kode_reply", session=state["session"], prompt="x", mode="full")
        await call("kode_reply", session=state["session"], prompt="x", mode="plan")
        assert call.conversation(state["session"]).mode == "plan"
    async with connect(full=True) as call:
        state = await call("kode_start", prompt="x", cwd=str(project), mode="full")
        assert call.conversation(state["session"]).mode == "full"

    assert "--allow-full" in fault
    assert "--allow-full" in again


async def test_a_client_lowers_limits_and_never_raises_them(
    connect: Connect, play: Any, project: Path
) -> None:
    play({"text": "done"}, max_steps=7, max_budget_usd=1.0)
    async with connect() as call:
        low = await call("kode_start", prompt="x", cwd=str(project), max_steps=2, budget_usd=0.5)
        high = await call("kode_start", prompt="x", cwd=str(project), max_steps=70, budget_usd=50)
        given = [call.conversation(one["session"]).config for one in (low, high)]

    assert [(one.max_steps, one.max_budget_usd) for one in given] == [(2, 0.5), (7, 1.0)]


async def test_mode_auto_edit_needs_the_whole_repository_as_root(
    connect: Connect, play: Any, project: Path, tmp_path: Path
) -> None:
    play({"text": "done"})
    empty_repository(tmp_path)
    async with connect() as call:
        fault = await call.fault("kode_start", prompt="x", cwd=str(project), mode="auto-edit")
        state = await call("kode_start", prompt="x", cwd=str(project), mode="ask")
        again = await call.fault(
            "kode_reply", session=state["session"], prompt="x", mode="auto-edit"
        )

    assert f"--root {tmp_path}" in fault
    assert f"--root {tmp_path}" in again
    assert state["status"] == "done"


async def test_a_server_is_never_deeper_than_subagents_may_be(
    connect: Connect, play: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.DEPTH, "1")
    play({"text": "done"})
    async with connect(depth=1) as call:
        state = await call("kode_start", prompt="x", cwd=str(project))
        served = call.conversation(state["session"])
        assert "delegate_tasks" not in [tool.name for tool in served.agent.tools]
        assert programs.depth(served.agent.place.environment) == 2
    async with connect(depth=2) as call:
        fault = await call.fault("kode_start", prompt="x", cwd=str(project))

    assert "max_depth" in fault


def test_a_server_started_at_the_root_needs_named_folders(connect: Connect, project: Path) -> None:
    with pytest.raises(ConfigError, match="--root"):
        roots_of([], Path("/"))
    assert roots_of([project], Path("/")) == (project,)
    assert roots_of([], project) == (project,)
