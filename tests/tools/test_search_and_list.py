"""`search_files` and `list_files`, with ripgrep and with kode's own worker: the same answers."""

import asyncio
import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kode.errors import ToolError
from kode.messages import plural
from kode.process import start_program
from kode.tool import Tool, ToolContext
from kode.tools import search
from kode.tools.search import list_files, search_files
from tests.needs import needs
from tests.tables import for_each
from tests.tools.conftest import Call, lives, until

engines = pytest.mark.parametrize("engine", [pytest.param("rg", marks=needs("rg")), "python"])


@pytest.fixture
def context(context: ToolContext, engine: str) -> ToolContext:
    if engine == "rg":
        return context
    return dataclasses.replace(context, place=dataclasses.replace(context.place, environment={}))


@pytest.fixture
def tree(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with everything that could be walked into by mistake, or steer the search."""
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(project / "rgrc"))
    texts = {
        "rgrc": "--invert-match\n",
        ".ignore": "*\n",
        "json.py": "raise SystemExit\n",
        "b.py": "import os\n\ndef find():\n    return os\n",
        "a/deep/x.py": "def find():\n    pass\n",
        "a.txt": "find me\nFIND ME\n",
        ".hidden/h.py": "def find(): ...\n",
        ".git/config": "find\n",
        "build/out.py": "find\n",
        "logs/x.log": "find\n",
        "logs/keep.log": "find\n",
        "logs/.gitignore": "!keep.log\n",
        "vendor/dep/v.py": "find\n",
        "vendor/.gitignore": "# all but this\n/dep/\n",
        ".gitignore": "*.log\n/build/\n",
        "ümläut.py": "find ü\n",
        "sub/.git/HEAD": "",
        # What `*.log` around a repository means in it depends on the version of ripgrep.
        "sub/x.txt": "a repository in it\n",
    }
    for name, text in texts.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (project / "binary.dat").write_bytes(b"find\n\0\n")
    (project / "late.dat").write_bytes(b"find\n" * 50_000 + b"\0\n")
    (project / "latin.txt").write_bytes(b"find caf\xe9\n")
    (project / "wide.txt").write_bytes("\ufefffind wide\r\n".encode("utf-16-le"))
    (project / "crlf.txt").write_bytes(b"x\r\nfind\r\n")
    (project / "a" / "loop").symlink_to(project)
    (project / "link.py").symlink_to("b.py")
    return project


FILES = [
    ".gitignore", ".hidden/h.py", ".ignore", "a/deep/x.py", "a.txt", "b.py", "binary.dat",
    "crlf.txt", "json.py", "late.dat", "latin.txt", "logs/.gitignore", "logs/keep.log", "rgrc",
    "sub/x.txt", "vendor/.gitignore", "wide.txt", "ümläut.py",
]  # fmt: skip


@engines
@for_each(
    ("arguments", "expected"),
    [
        ({}, FILES),
        ({"pattern": "*.{py,txt}", "path": "a"}, ["a/deep/x.py"]),
        ({"path": "vendor/dep"}, ["vendor/dep/v.py"]),
        ({"path": "logs"}, ["logs/.gitignore", "logs/keep.log"]),
    ],
)
async def test_files_are_listed_in_order_without_what_is_ignored(
    call: Call, tree: Path, arguments: dict[str, str], expected: list[str]
) -> None:
    output = await call(list_files, **arguments)

    assert output.for_model.split("\n") == expected
    assert output.summary == plural(len(expected), "file")


@engines
async def test_a_long_list_is_cut_or_counted_by_folder(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_FILES", 100)
    monkeypatch.setattr(search, "MAX_FOLDERS", 15)
    for number in range(120):
        folder = project / "src" / ("wide" if number % 3 else f"deep/{number:04}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04}.py").touch()
    (project / "README").touch()

    *lines, note = (await call(list_files)).for_model.split("\n")
    assert lines == ["README", "src/deep/ (40 files)", "src/wide/ (80 files)"]
    assert note.startswith("[121 files")
    assert len((await call(list_files, path="src/wide")).for_model.split("\n")) == 80

    for number in range(105):
        (project / f"{number:04}").touch()
    lines = (await call(list_files, pattern="[0-9]*[0-9]")).for_model.split("\n")
    assert (lines[0], lines[99]) == ("0000", "0099")
    assert lines[100].startswith("[100 of 105 files shown.")


@engines
@for_each(
    ("tool", "arguments", "reason"),
    [
        (list_files, {"path": "log"}, "Did you mean logs"),
        (list_files, {"path": "b.py"}, r"b\.py is a file: use read_file"),
        (list_files, {"pattern": "*.{py"}, "brace is not closed"),
        (list_files, {"pattern": "[a"}, "bracket is not closed"),
        (list_files, {"pattern": "{1,2}" * 12}, "is not a glob"),
        (list_files, {"pattern": "../*.py"}, "below `path` only"),
        (search_files, {"pattern": "foo.(bar"}, r"missing \), unterminated .* at position 4"),
        (search_files, {"pattern": r"a\nb"}, "line by line"),
        (search_files, {"pattern": ""}, "use list_files"),
    ],
)
async def test_a_question_that_has_no_answer_says_why(
    call: Call, tree: Path, tool: Tool, arguments: dict[str, object], reason: str
) -> None:
    with pytest.raises(ToolError, match=reason):
        await call(tool, **arguments)


@engines
async def test_a_folder_that_cannot_be_read_is_not_called_empty(
    call: Call, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tree / "logs")
    for tool, more in ((list_files, {}), (search_files, {"pattern": "find"})):
        with pytest.raises(ToolError, match="logs may not be read"):
            await call(tool, path="logs", **more)


@engines
async def test_answers_name_what_they_are_about(call: Call, tree: Path) -> None:
    listed = await call(list_files, pattern="*.rs")
    searched = await call(search_files, pattern="nowhere", glob="*.py")

    assert listed.text == f"No files matching *.rs in {tree}."
    assert searched.for_model == f"No hits for 'nowhere' in {tree} in files matching *.py."

    (tree / "two\nlines.rs").write_text("find\n")
    assert (await call(list_files, pattern="*.rs")).for_model == "two\\nlines.rs"
    found = await call(search_files, pattern="find", glob="*.rs")
    assert found.for_model == "two\\nlines.rs\n1:find"


@engines
async def test_hits_are_grouped_by_file_in_order_of_path(call: Call, tree: Path) -> None:
    output = await call(search_files, pattern="find")

    assert output.for_model == "\n\n".join(
        [
            ".hidden/h.py\n1:def find(): ...",
            "a/deep/x.py\n1:def find():",
            "a.txt\n1:find me",
            "b.py\n3:def find():",
            "crlf.txt\n2:find",
            "latin.txt\n1:find café",
            "logs/keep.log\n1:find",
            "wide.txt\n1:find wide",
            "ümläut.py\n1:find ü",
        ]
    )
    assert output.summary == "9 hits"
    output = await call(
        search_files, pattern="FIND ME|DEF", glob="*.{py,txt}", ignore_case=True, context=1
    )
    assert "a.txt\n1:find me\n2:FIND ME" in output.for_model
    assert "b.py\n2-\n3:def find():\n4-    return os" in output.for_model


@engines
@for_each(
    ("text", "arguments", "shown"),
    [
        (
            "x\n1\n2\n3\n4\nx\n5\nx\n",
            {"pattern": "^x$", "context": 1},
            "1:x\n2-1\n--\n5-4\n6:x\n7-5\n8:x",
        ),
        ("foobar\nfoobaz\n", {"pattern": "foo(?!bar)"}, "2:foobaz"),
        ("ab\nxyxy\n", {"pattern": r"(xy)\1"}, "2:xyxy"),
        ("say --pre=touch now\n", {"pattern": "--pre=touch"}, "1:say --pre=touch now"),
    ],
)
async def test_a_pattern_finds_its_lines_in_an_ignored_file_too(
    call: Call, project: Path, text: str, arguments: dict[str, object], shown: str
) -> None:
    (project / ".gitignore").write_text("a\n")
    (project / "a").write_text(text)

    output = await call(search_files, path="a", **arguments)

    assert output.for_model == f"a\n{shown}"
    assert output.files_read == (str(project / "a"),)


def shown_in(text: str) -> dict[str, int]:
    """Hits shown, by file."""
    found: dict[str, int] = {}
    for block in text.split("\n\n"):
        name, *lines = block.split("\n")
        found[name.split(" ")[0]] = sum(re.match(r"\d+:", line) is not None for line in lines)
    return found


@engines
async def test_hits_are_spread_over_the_files_and_counted(call: Call, project: Path) -> None:
    for name, count in (("a", 700), ("b", 70), ("c", 10)):
        (project / name).write_text("x\n" * count)
    spread = await call(search_files, pattern="x")
    for number in range(120):
        (project / f"{number:03}").write_text("w\n" * 3 + ("z" + "y" * 290 + "\n") * 5)
    short = await call(search_files, pattern="w")
    long = await call(search_files, pattern="z", glob="0[0-4]*")

    assert shown_in(spread.for_model) == {"a": 45, "b": 45, "c": 10}
    assert spread.for_model.startswith("a (45 of 700 hits)\n1:x\n2:x\n")
    assert "\n[780 hits in 3 files, 100 shown. " in spread.for_model
    assert "--" not in spread.for_model
    assert shown_in(short.for_model) == {f"{number:03}": 1 for number in range(100)}
    assert len(short.files_read) == 100
    assert len(long.for_model) < 31_000
    assert {*shown_in(long.for_model).values()} == {1, 2}
    assert len(shown_in(long.for_model)) == 50


@engines
async def test_context_that_has_no_room_is_cut_evenly_and_told(call: Call, project: Path) -> None:
    lines = [f"line {number} {'y' * 50}" for number in range(1, 2_000)]
    for name in ("a", "b"):
        (project / name).write_text("\n".join(lines))

    few = await call(search_files, pattern="^line 1000 ", context=60, path="a")
    shown = few.for_model.split("\n")[1:]
    assert [shown[at].split("line")[0] for at in (0, 60, -1)] == ["940-", "1000:", "1060-"]

    output = await call(search_files, pattern="^line 1000 ", context=1_000_000)

    one, other = output.for_model.split("\n\n")
    assert 0.9 < len(one) / len(other) < 1.1
    assert 28_000 < len(output.for_model) < 31_000
    numbers = [int(number) for number in re.findall(r"^(\d+)[:-]", one, re.MULTILINE)]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert abs(numbers[0] + numbers[-1] - 2_000) <= 1
    assert "the context has room" in output.for_model


@engines
async def test_a_long_line_is_cut_around_its_hit(call: Call, project: Path) -> None:
    (project / "a").write_text("é" * 5000 + "needle" + "b" * 5000 + "\n")
    (project / "b").write_bytes(b"\xe9" * 5000 + b"needle" + b"b" * 5000 + b"\n")

    output = await call(search_files, pattern="needle")

    for line in (output.for_model.split("\n")[at] for at in (1, 4)):
        assert len(line) < 310
        assert line.startswith("1:…é")
        assert "needle" in line
        assert line.endswith("b…")


@engines
@pytest.mark.slow
async def test_a_pattern_that_backtracks_forever_ends(
    call: Call, project: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "TIMEOUT_S", 3.0)
    (project / "a").write_text("aab\n")
    (project / "b").write_text("a" * 5000 + "\n")

    output = await call(search_files, pattern="(a+)+b")

    assert "a\n1:aab" in output.for_model
    assert ("[Stopped after 3 s" in output.for_model) == (engine == "python")


@engines
async def test_secrets_never_show_in_a_search(call: Call, context: ToolContext) -> None:
    asked = search_files.preview(context, {"pattern": "x", "path": "/etc"})
    assert asked == "search /etc for x"
    home = context.place.protected[0]
    (home / "config.json").write_text('"api_key": "find"\n')
    (home / "user.md").write_text("find\n")

    output = await call(search_files, pattern="find", path=str(home))

    assert output.for_model == f"{home}/user.md\n1:find"
    assert output.untrusted == str(home)
    with pytest.raises(ToolError, match="secrets"):
        await call(search_files, pattern="find", path=str(home / "config.json"))


@engines
async def test_a_search_that_takes_too_long_stops_and_says_so(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*argv: str, **options: Any) -> asyncio.subprocess.Process:
        return await start_program("/bin/sleep", "600", **options)

    monkeypatch.setattr("kode.tools.processes.start_program", hangs)
    monkeypatch.setattr(search, "TIMEOUT_S", 0.01)
    (project / "a").write_text("x\n")

    assert "[Stopped after 0 s" in (await call(search_files, pattern="x")).for_model
    assert "[Stopped after 0 s" in (await call(list_files)).for_model


@engines
async def test_an_enormous_lines_hit_is_counted_but_not_kept(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_PIECE_BYTES", 300_000)
    (project / "a.min.js").write_text("x" * 2_000_000 + "needle\n")
    (project / "b.js").write_text("needle\n")

    output = await call(search_files, pattern="needle")

    assert output.for_model.startswith("b.js\n1:needle\n[")
    assert output.for_model.endswith(": 1.]")


@pytest.mark.parametrize("engine", ["python"])
async def test_cancellation_ends_the_process(context: ToolContext, project: Path) -> None:
    script, pid = project.parent / "slow", project / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 100\n")
    script.chmod(0o755)

    task = asyncio.create_task(search.run_search(str(script), project, lambda piece: True))
    await until(lambda: pid.exists() and pid.read_text().strip())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not lives(int(pid.read_text()))


@engines
async def test_key_files_are_left_out_unless_asked_for(call: Call, project: Path) -> None:
    (project / ".env").write_text("API_KEY=canary\n")
    (project / "a.py").write_text("API_KEY = env()\n")

    everywhere = await call(search_files, pattern="API_KEY")

    assert "canary" not in everywhere.for_model
    assert "a.py" in everywhere.for_model
    assert "hold keys: .env" in everywhere.for_model
    for where in ({"path": ".env"}, {"glob": ".env"}):
        assert "canary" in (await call(search_files, pattern="API_KEY", **where)).text


@for_each(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "x/y/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/*.py", "y/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "x/a.py", False),
        ("./src/a?.py", "src/ab.py", True),
        ("src/**", "src/x/y", True),
        ("**/x/*", "a/x/b", True),
        ("*.{js,ts{,x}}", "a.tsx", True),
        ("*.{js,ts{,x}}", "a.jsx", False),
        ("[!a]*", "b", True),
        ("[!a]*", "abc", False),
        ("[a-c]x", "bx", True),
        ("!*.py", "a.py", False),
        ("!*.py", "a.js", True),
        ("a+b(c).txt", "a+b(c).txt", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        (".*", ".env", True),
    ],
)
def test_a_glob_means_what_it_does_elsewhere(pattern: str, path: str, expected: bool) -> None:
    assert search.matches_glob(pattern, path) is expected
