"""What a command sees: the system, the work, tool chains, what a manifest or a person names."""

import json
import os
from pathlib import Path

import pytest

from kode.assembly import open_sandbox
from kode.config.model import Config
from kode.permissions.gate import Gate, GateState
from kode.permissions.rules import Rules
from kode.sandbox.reach import Grants, access, is_outside
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import Support
from kode.tool import Action
from kode.tools.builtin import BUILTIN
from tests.sandbox.conftest import need
from tests.sandbox.sandboxed import KINDS, Kind, attempted_in, begun, opened, ran
from tests.workplaces import workplace


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a project and others beside it."""
    home = tmp_path / "home"
    for name in (
        "home/.ssh",
        "home/.local/bin",
        "p/.git",
        "lib",
        "other",
        "tools/bin",
        "tools/lib",
    ):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return tmp_path


def made(base: Path, **grants: object) -> Sandbox:
    place = workplace(base / "p", user_home=base / "home", home=base / "home/.kode")
    return Sandbox(place=place, grants=Grants(**grants))  # type: ignore[arg-type]


SEEN = {
    "/": "hidden",
    "/usr/bin/env": "readable",
    "/etc/hosts": "readable",
    "/srv/x": "hidden",
    "/home/other/.env": "hidden",
    "/tmp/x": "private",
    "/dev/null": "private",
    "{base}/p/a": "writable",
    "{base}/other/a": "private",
    "{base}/home": "empty",
    "{base}/home/.local/bin/x": "readable",
    "{base}/home/.ssh/id": "empty",
    "{base}/home/.kode/config.json": "hidden",
}


def test_only_what_is_listed_is_shown(base: Path) -> None:
    reach = made(base).reach("layered")
    paths = {path: path.format(base=base) for path in SEEN}
    assert {path: access(reach, paths[path]) for path in SEEN} == SEEN
    assert is_outside(reach, "/srv/x")
    assert not is_outside(reach, paths["{base}/home/.ssh/id"])


def test_a_machine_without_mounts_hides_what_it_cannot_replace(base: Path) -> None:
    reach = made(base).reach("landlock")
    assert {access(reach, path) for path in ("/tmp/x", "/dev/null", f"{base}/home/x")} == {"hidden"}
    assert access(reach, f"{base}/p") == "readable"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", json.dumps({"dependencies": {"lib": "file:../lib"}})),
        ("go.work", "use (\n\t.\n\t../lib\n)\n"),
        ("Cargo.toml", '[dependencies]\nlib = { path = "../lib" }\n'),
        ("requirements.txt", "-e ../lib\n"),
        ("pyproject.toml", '[tool.uv.sources]\nlib = { path = "../lib", editable = true }\n'),
    ],
)
def test_siblings_that_a_manifest_names_are_readable_without_keys(
    base: Path, name: str, text: str
) -> None:
    (base / "p" / name).write_text(text)
    (base / "lib" / "package.json").write_text('{"dependencies": {"other": "file:../other"}}')
    (base / "lib" / ".env").write_text("KEY=1")
    (base / "other" / "pyproject.toml").write_text('x = "../home ../no-package"')
    sandbox = made(base)
    assert sorted(sandbox.siblings) == [base / "lib", base / "other"]
    assert sandbox.masked() == [base / "lib/.env"]
    assert access(sandbox.reach("plain"), f"{base}/lib/a") == "readable"


def test_a_manifest_changed_by_a_command_shows_nothing_more(base: Path) -> None:
    (base / "lib" / "package.json").write_text("{}")
    sandbox = made(base)
    assert sandbox.siblings == ()
    (base / "p" / "package.json").write_text('{"dependencies": {"lib": "file:../lib"}}')
    assert access(sandbox.reach("plain"), f"{base}/lib/a") == "private"


def test_a_path_or_variable_never_shows_everything(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", ".:/:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", "/")
    monkeypatch.setattr("kode.sandbox.reach.own_homes", tuple)
    monkeypatch.chdir("/srv")
    reach = made(base).reach("plain")
    assert {access(reach, path) for path in ("/", "/srv/x", "/root/x", "/data")} == {"hidden"}


@pytest.mark.parametrize(
    ("mark", "shown"),
    [("pyvenv.cfg", True), ("conda-meta", True), ("VERSION", True), ("", False), (".git", False)],
)
def test_tool_chains_of_the_path_are_shown_wherever_they_lie(
    base: Path, monkeypatch: pytest.MonkeyPatch, mark: str, shown: bool
) -> None:
    for name in filter(None, (mark, "VERSION" if mark == ".git" else "")):
        (base / "tools" / name).touch()
    monkeypatch.setenv("PATH", f"{base}/tools/bin:{base}/home:{base}:/usr/bin")
    reach = made(base).reach("plain")
    for name in ("bin", "lib"):
        assert access(reach, f"{base}/tools/{name}/x") == "readable"
    assert (access(reach, f"{base}/tools/src") == "readable") is shown
    assert access(reach, f"{base}/other/x") == "private"
    assert access(reach, f"{base}/home/x") == "empty"


def test_a_read_rule_shows_its_folder_but_never_a_home(base: Path) -> None:
    rules = ["read(../other/**)", "read(~/**)", "read(*.md)"]
    config = Config.model_validate({"permissions": {"allow": rules}})
    place = workplace(base / "p", user_home=base / "home", home=base / "home/.kode")
    sandbox = open_sandbox(config, place)
    assert sandbox is not None
    (base / "other" / ".env").write_text("KEY=1")
    reach = sandbox.reach("plain")
    assert access(reach, f"{base}/other/a") == "readable"
    assert sandbox.masked() == [base / "other/.env"]
    assert access(reach, f"{base}/home/.bash_history") == "empty"


READ_BY_TOOLS = {
    "/usr/bin/env": "allow",
    "/etc/hosts": "allow",
    "{base}/home/.local/bin": "allow",
    "/etc/ssh/id_rsa": "ask",
    "{base}/other": "ask",
    "{base}/home/notes": "ask",
    "/": "ask",
}


def test_file_tools_read_what_commands_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, support = made(base), Support("layered")
    monkeypatch.setattr(Sandbox, "support", lambda _: support)
    gate = Gate(rules=Rules(), state=GateState(mode="ask"), place=sandbox.place, sandbox=sandbox)
    read = next(tool for tool in BUILTIN if tool.name == "read_file")
    outcomes = {
        path: gate.decide(
            Action(call_id="1", tool=read, arguments={"path": path.format(base=base)})
        ).outcome
        for path in READ_BY_TOOLS
    }
    assert outcomes == READ_BY_TOOLS


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_outside_is_not_there_and_named_once(
    home: Path, work: Path, place: Path, kind: Kind
) -> None:
    (place / "sibling").mkdir()
    (place / "sibling" / "data").write_text("canary-value")
    sandbox = opened(home, work)
    need(sandbox, kind)
    programs = ("cat {}", "python3 -c 'print(open(\"{}\").read())'", "cp {} copy; cat copy")
    for program in programs:
        line = f"{program.format(place / 'sibling/data')}; ln -s / l; cat l{place}/*/*"
        assert "canary" not in attempted_in(sandbox, kind, line).out
    sandbox, named = opened(home, work), []
    for _ in range(2):
        attempt = begun(sandbox, kind)
        done = ran(attempt.wrap(("/bin/cat", f"{place}/sibling/data")), work)
        named += [hit.where for hit in attempt.blocked(done.err) if hit.what == "hidden"]
        attempt.close()
    assert named == [f"{place}/sibling/data"]
    assert os.listdir(work) == [".git"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_named_sibling_is_read_without_its_keys(
    home: Path, work: Path, place: Path, kind: Kind
) -> None:
    (work / "package.json").write_text('{"dependencies": {"lib": "file:../../lib"}}')
    (place / "lib").mkdir()
    for name, text in (("package.json", "{}"), (".env", "KEY=canary-value"), ("code", "code")):
        (place / "lib" / name).write_text(text)
    sandbox = opened(home, work)
    need(sandbox, kind)
    done = attempted_in(sandbox, kind, f"cd {place}/lib; cat code .env; touch new")
    assert done.out == "code"
    assert sorted(os.listdir(place / "lib")) == [".env", "code", "package.json"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("cat {}/data", True),
        ("cd {}; python3 -c 'open(\"data\").read()'", True),
        ("ln -s {} l; cat l/data", True),
        ("test -e {}/data; cat /etc/hostname", False),
    ],
)
def test_a_command_that_opens_a_granted_file_is_marked(
    home: Path, work: Path, place: Path, kind: Kind, line: str, marked: bool
) -> None:
    (place / "granted").mkdir()
    (place / "granted" / "data").write_text("from outside")
    sandbox = opened(home, work, read=[f"{place}/granted"])
    need(sandbox, kind)
    attempt = begun(sandbox, kind)
    ran(attempt.wrap(("/bin/bash", "-c", line.format(place / "granted"))), work)
    attempt.close()
    linked = kind != "layered" and line.startswith("ln")  # no link can be made
    assert bool(attempt.outside_text) is (marked and not linked)
