from types import SimpleNamespace

import pytest

from kode.conversation.hooking import run_hook
from kode.extensions.hooks import Hook
from kode.extensions.trust import Item
from tests.workplaces import workplace

BROKEN = SimpleNamespace(holds=lambda: False)


@pytest.mark.parametrize(("scope", "runs"), [("project", False), ("home", True)])
async def test_a_projects_hook_does_not_run_outside_a_sandbox(tmp_path, scope, runs):
    project = tmp_path / "project"
    project.mkdir()
    origin = project / ".claude" / "settings.json"
    item = Item(kind="hook", name="Stop", origin=origin, scope=scope, content="touch ran")
    hook = Hook(item=item, event="Stop", matcher="", command="touch ran")

    ran = await run_hook(hook, b"{}", workplace(project), BROKEN)

    assert (project / "ran").exists() is runs
    assert ran.fault == ("" if runs else "was not run: there is no sandbox (`kode doctor`)")
