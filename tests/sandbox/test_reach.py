"""What a command sees: the system, the work, tool chains, what a manifest or a person names."""

import json
from pathlib import Path

import pytest

from kode.assembly import open_sandbox
from kode.config.model import Config, Permissions
from kode.permissions.gate import Gate, GateState
from kode.permissions.rules import Rules
from kode.sandbox.reach import Grants, access
from kode.sandbox.sandbox import Sandbox
from kode.sandbox.trial import Support
from kode.tool import Action
from kode.tools.builtin import BUILTIN
from tests.sandbox.sandboxed import Run, bash, put
from tests.tables import for_each
from tests.workplaces import workplace


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a project and others beside it."""
    for name in "home/.ssh home/.local/bin p/.git lib other tools/bin tools/lib".split():
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def opened(base: Path) -> Sandbox:
    place = workplace(base / "p", user_home=base / "home", home=base / "home/.kode")
    return Sandbox(place=place, grants=Grants())


SEEN = {
    "/": ("hidden", "hidden"),
    "/usr/bin/env": ("readable", "readable"),
    "/etc/hosts": ("readable", "readable"),
    "/srv/x": ("hidden", "hidden"),
    "/home/other/.env": ("hidden", "hidden"),
    "/tmp/x": ("private", "hidden"),
    "/dev/null": ("private", "hidden"),
    "{base}/p/a": ("writable", "readable"),
    "{base}/other/a": ("private", "hidden"),
    "{base}/home": ("empty", "hidden"),
    "{base}/home/.local/bin/x": ("readable", "readable"),
    "{base}/home/.ssh/id": ("empty", "hidden"),
    "{base}/home/.kode/config.json": ("hidden", "hidden"),
}
"""In a copy, and where Landlock alone cannot replace what it hides."""


def test_only_what_is_listed_is_shown(base: Path) -> None:
    kinds = [opened(base).reach(kind) for kind in ("layered", "landlock")]
    paths = {path: path.format(base=base) for path in SEEN}
    shown = {path: tuple(access(reach, paths[path]) for reach in kinds) for path in SEEN}
    assert shown == SEEN


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
    before = opened(base)
    other = '{"dependencies": {"other": "file:../other"}}'
    put(base / "lib", {"package.json": other, ".env": "KEY=1"})
    put(base / "other", {"pyproject.toml": 'x = "../home ../no-package"'})
    assert before.siblings == ()
    (base / "p" / name).write_text(text)
    sandbox = opened(base)
    assert sorted(sandbox.siblings) == [base / "lib", base / "other"]
    assert sandbox.masks.paths() == [base / "lib/.env"]
    assert access(sandbox.reach("plain"), f"{base}/lib/a") == "readable"
    # What a command writes into a manifest shows nothing more to those after it.
    assert access(before.reach("plain"), f"{base}/lib/a") == "private"


def test_a_path_or_variable_never_shows_everything(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", ".:/:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", "/")
    monkeypatch.setattr("kode.sandbox.reach.user_homes", tuple)
    monkeypatch.chdir("/srv")
    reach = opened(base).reach("plain")
    assert {access(reach, path) for path in ("/", "/srv/x", "/root/x", "/data")} == {"hidden"}


@pytest.mark.parametrize(
    ("marks", "shown"),
    [
        *((mark, True) for mark in ("pyvenv.cfg", "conda-meta", "VERSION")),
        *((marks, False) for marks in ("", ".git VERSION")),
    ],
)
def test_tool_chains_of_the_path_are_shown_wherever_they_lie(
    base: Path, monkeypatch: pytest.MonkeyPatch, marks: str, shown: bool
) -> None:
    for name in marks.split():
        (base / "tools" / name).touch()
    monkeypatch.setenv("PATH", f"{base}/tools/bin:{base}/home:{base}:/usr/bin")
    reach = opened(base).reach("plain")
    for name in ("bin", "lib"):
        assert access(reach, f"{base}/tools/{name}/x") == "readable"
    assert (access(reach, f"{base}/tools/src") == "readable") is shown
    assert access(reach, f"{base}/other/x") == "private"
    assert access(reach, f"{base}/home/x") == "empty"


def test_a_read_rule_shows_its_folder_but_never_a_home(base: Path) -> None:
    rules = ("read(../other/**)", "read(~/**)", "read(*.md)")
    config = Config(permissions=Permissions(allow=rules))
    sandbox = open_sandbox(config, opened(base).place)
    assert sandbox is not None
    (base / "other" / ".env").write_text("KEY=1")
    reach = sandbox.reach("plain")
    assert access(reach, f"{base}/other/a") == "readable"
    assert sandbox.masks.paths() == [base / "other/.env"]
    assert access(reach, f"{base}/home/.bash_history") == "empty"


def test_file_tools_read_what_commands_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, support = opened(base), Support("layered")
    monkeypatch.setattr(Sandbox, "support", lambda _: support)
    gate = Gate(rules=Rules(), state=GateState(mode="ask"), place=sandbox.place, sandbox=sandbox)
    read = next(tool for tool in BUILTIN if tool.name == "read_file")
    shown = ("/usr/bin/env", "/etc/hosts", f"{base}/home/.local/bin")
    for path in (*shown, "/etc/ssh/id_rsa", f"{base}/other", f"{base}/home/notes", "/"):
        action = Action(call_id="1", tool=read, arguments={"path": path})
        assert gate.decide(action).outcome == ("allow" if path in shown else "ask"), path


@pytest.mark.slow
def test_a_file_outside_is_not_there_and_named_once(run: Run, place: Path) -> None:
    data, named = place / "sibling" / "data", []
    put(place, {"sibling/data": "canary-value"})
    for _ in range(2):
        with run.attempt(f"ln -s / l; cat {data}; cat l{place}/*/*") as (attempt, done):
            assert "canary" not in done.out
            named += [hit.where for hit in attempt.find_blocked(done.err) if hit.what == "hidden"]
    assert named == [str(data)]


@pytest.mark.slow
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
    run: Run, place: Path, line: str, marked: bool
) -> None:
    granted = place / "granted"
    put(granted, {"data": "from outside"})
    with run.again(read=[str(granted)]).attempt(line.format(granted)) as (attempt, _):
        pass
    linked = run.kind != "layered" and line.startswith("ln")  # no link can be made
    assert bool(attempt.outside_text) is (marked and not linked)


@pytest.mark.slow
@for_each(
    ("line", "marked"),
    [
        ("sh -c '. docs/notes'", True),
        ("cp -r docs x; cat x/notes", True),
        ("ln -s docs l; cat l/notes", True),
        ("mv docs x; cat x/notes", True),
        ("ln docs/notes x; cat x", True),
        ("sed -i s/a/b/ docs/notes", True),
        ("git cat-file -p HEAD:docs/notes", True),
        ("ls -R; cat other; echo new > docs/new", False),
    ],
)
def test_a_command_that_opens_a_marked_file_is_marked(
    layered: Run, line: str, marked: bool
) -> None:
    put(layered.work, {"docs/notes": "true a", "other": "b"})
    bash(layered.work, "git add .; git commit -qm 1 || :")
    notes = {f"{layered.work}/docs/notes": "a page"}
    with layered.again().attempt(line, marked=notes) as (attempt, done):
        assert done.code == 0, done.err
    assert attempt.outside_text == ("a page" if marked else "")
