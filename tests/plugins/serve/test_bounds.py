"""Where, in which mode, how deep and at what cost clients may have kode work."""

from pathlib import Path

import pytest

from kode import process
from kode.errors import ConfigError
from kode.plugins.serve.command import resolve_roots
from tests.plugins.serve.conftest import DONE
from tests.workplaces import empty_repository

pytestmark = pytest.mark.parametrize("serve", ["auto"], indirect=True)


@pytest.fixture
def other(tmp_path):
    """A folder beside the project."""
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


async def test_only_folders_below_a_root_are_worked_in(serve, project, other):
    (project / "below").mkdir()
    (project / "link").symlink_to(other)
    async with serve(DONE) as call:
        for outside in (other, project / "link", project / "..", Path("/")):
            assert f"--root {outside.resolve()}" in await call.refused(cwd=str(outside))
        assert "does not exist" in await call.refused(cwd=str(project / "no"))
        assert (await call.start(cwd=str(project / "below")))["status"] == "done"


async def test_sessions_of_other_folders_are_neither_listed_nor_taken_up(serve, other):
    async with serve(DONE, roots=(other,)) as call:
        state = await call.start("secret plans", cwd=str(other))
    async with serve(DONE) as call:
        assert await call("kode_sessions") == {"sessions": []}
        for tool in ("kode_reply", "kode_diff", "kode_undo"):
            prompt = {"prompt": "x"} if tool == "kode_reply" else {}
            fault = await call.fault(tool, session=state["session"], **prompt)
            assert "folder" in fault
            assert "secret plans" not in fault


async def test_mode_full_is_for_a_person_alone(serve):
    async with serve(DONE, config={"permissions": {"mode": "full"}}) as call:
        assert "'plan', 'ask' or 'auto-edit'" in await call.refused(mode="full")
        reply = {"session": (await call.start())["session"], "prompt": "x"}
        assert call.conversation(reply["session"]).gate.state.mode == "ask"
        await call("kode_reply", **reply, mode="plan")
        assert call.conversation(reply["session"]).gate.state.mode == "plan"


async def test_a_client_lowers_limits_and_never_raises_them(serve):
    async with serve(DONE, config={"max_steps": 7, "max_budget_usd": 1.0}) as call:
        limits = []
        for steps, usd in ((2, 0.5), (70, 50)):
            state = await call.start(max_steps=steps, budget_usd=usd)
            config = call.conversation(state["session"]).config
            limits.append((config.max_steps, config.max_budget_usd))

    assert limits == [(2, 0.5), (7, 1.0)]


async def test_mode_auto_edit_needs_the_whole_repository_as_root(serve, tmp_path):
    async with serve(DONE) as call:
        empty_repository(tmp_path)
        assert f"--root {tmp_path}" in await call.refused(mode="auto-edit")
        state = await call.start(mode="ask")
        reply = {"session": state["session"], "prompt": "x", "mode": "auto-edit"}
        assert f"--root {tmp_path}" in await call.fault("kode_reply", **reply)

    assert state["status"] == "done"


async def test_a_server_is_never_deeper_than_subagents_may_be(serve, monkeypatch):
    monkeypatch.setenv(process.DEPTH, "1")
    async with serve(DONE, depth=1) as call:
        served = call.conversation((await call.start())["session"])
        assert "delegate_tasks" not in [tool.name for tool in served.agent.tools]
        assert process.nesting_depth(served.agent.place.environment) == 2
    async with serve(DONE, depth=2) as call:
        assert "max_depth" in await call.refused()


def test_a_server_started_at_the_root_needs_named_folders(serve, project):
    with pytest.raises(ConfigError, match="--root"):
        resolve_roots([], Path("/"))
    assert resolve_roots([project], Path("/")) == (project,)
    assert resolve_roots([], project) == (project,)
