"""What a server's process can reach. Needs bubblewrap."""

import pytest

from kode.errors import ServerError
from tests.needs import needs

pytestmark = [pytest.mark.slow, needs("bwrap")]


async def write(one, path):
    content = await one.connection().call("write", {"path": str(path)}, print)
    return not content.is_error


async def test_a_server_cannot_change_the_project_or_the_home(server, project, tmp_path):
    one = await server("reaching", sandboxed=True)
    assert not await write(one, project / "new.txt")
    await write(one, tmp_path / "home" / "new.txt")
    assert not (project / "new.txt").exists()
    assert not (tmp_path / "home" / "new.txt").exists()


async def test_a_writing_server_changes_the_project_but_not_gits_programs(server, project):
    (project / ".git" / "hooks").mkdir()
    one = await server("reaching", sandboxed=True, write=True)
    assert await write(one, project / "new.txt")
    assert (project / "new.txt").read_text() == "written"
    assert not await write(one, project / ".git" / "hooks" / "pre-commit")


async def test_a_server_gets_named_variables_only(server, monkeypatch):
    monkeypatch.setenv("A_SECRET", "s3cret")
    one = await server("reaching", sandboxed=True, env={"NAMED": "yes"})

    async def variable(name):
        return (await one.connection().call("variable", {"name": name}, print)).text

    assert await variable("NAMED") == "yes"
    assert await variable("A_SECRET") == "(not set)"


async def test_a_server_does_not_start_without_the_sandbox(server, monkeypatch):
    monkeypatch.setattr("kode.sandbox.trial.find_fault", lambda *given, **more: "broken")
    one = await server("reaching", sandboxed=True)
    with pytest.raises(ServerError):
        one.connection()
