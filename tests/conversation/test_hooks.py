from dataclasses import replace
from types import SimpleNamespace

import pytest

from kode.conversation.hooks import run_hook
from kode.extensions import trust
from kode.extensions.hooks import Hook
from kode.extensions.trust import Item
from tests.workplaces import workplace

BROKEN = SimpleNamespace(is_available=lambda: False)


@pytest.mark.parametrize(("scope", "runs"), [("project", False), ("home", True)])
async def test_a_projects_hook_does_not_run_outside_a_sandbox(tmp_path, scope, runs):
    project = tmp_path / "project"
    project.mkdir()
    origin = project / ".claude" / "settings.json"
    item = Item(kind="hook", name="Stop", origin=origin, scope=scope, content="touch ran")
    hook = Hook(item=item, event="Stop", matcher="", command="touch ran")

    ran = await run_hook(hook, b"{}", workplace(project), BROKEN)

    assert (project / "ran").exists() is runs
    assert ran.begun is runs


@pytest.mark.parametrize("required", [False, True])
async def test_an_approved_hook_needs_a_sandbox_only_where_required(tmp_path, required):
    project = tmp_path / "project"
    project.mkdir()
    place, origin = workplace(project), project / ".claude" / "settings.json"
    item = Item(kind="hook", name="Stop", origin=origin, scope="project", content="touch ran")
    trust.approve(place.home, place.project, [item])
    hook = Hook(item=item, event="Stop", matcher="", command="touch ran")

    before = await run_hook(hook, b"{}", place, BROKEN, required=required)
    trust.approve(place.home, place.project, [trust.outside(item)])
    after = await run_hook(hook, b"{}", place, BROKEN, required=required)
    changed = replace(hook, item=replace(item, content="rm ran"), command="rm ran")
    then = await run_hook(changed, b"{}", place, BROKEN, required=required)

    assert (before.begun, after.begun, then.begun) == (False, not required, False)
    assert (project / "ran").exists() is not required
