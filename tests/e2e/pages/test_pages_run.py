"""The pages are true: whoever follows one literally never stops."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.command import Place
from tests.e2e.pages.blocks import PAGES, RUN, SHOWN, Block, blocks, unseen
from tests.e2e.pages.plays import CANNOT_RUN, PLAYS, PYTHON, Play, Ran
from tests.needs import skip_without
from tests.scripted_server import ScriptedServer

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
NEXT = "\x1e"
"""A line of it stands in both outputs where a block begins."""

ALL = [block for page in PAGES for block in blocks(page)]


@dataclass(frozen=True)
class Story:
    """Blocks that run one after the other, in one shell and one home."""

    name: str
    """A page, or `PAGE#HEADING` for a section with a play of its own."""
    blocks: tuple[Block, ...]


def runs(block: Block) -> bool:
    if block.name in CANNOT_RUN:
        return False
    return block.language in RUN or (block.language == "python" and block.page in PYTHON)


def story_of(block: Block) -> str:
    name = f"{block.page}#{block.heading}"
    return name if name in PLAYS else block.page


RUNNING = [block for block in ALL if runs(block)]
STORIES = [
    Story(name, tuple(block for block in RUNNING if story_of(block) == name))
    for name in dict.fromkeys(map(story_of, RUNNING))
]


@pytest.fixture
def project(place: Place) -> Path:
    """What the pages speak of: a small repository with a failing test and a change on top."""
    folder = place.project
    skip_without("git")
    for name, text in {
        "src/parse.py": "def parse(text):\n    return text\n",
        "src/run.py": "import parse\n\n# TODO tests\n",
        "test_parse.py": (
            "import sys, unittest\n\nsys.path.insert(0, 'src')\n\n\n"
            "class Test(unittest.TestCase):\n    def test_it_strips(self):\n"
            "        from parse import parse\n\n        self.assertEqual(parse(' a '), 'a')\n"
        ),
        "CHANGELOG.md": "# 1.0\n",
        "README.md": "teh parser\n",
        "task.txt": "Explain src/parse.py\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-qb", "main"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run([*GIT, "commit", "-qm", "first"], cwd=folder, check=True)
    with (folder / "src" / "run.py").open("a") as file:
        file.write("# changed\n")
    subprocess.run([*GIT, "commit", "-qam", "second"], cwd=folder, check=True)
    return folder


def program(story: Story, folder: Path) -> str:
    """All of a story as one program of bash, whose output tells the blocks apart."""
    lines = ["set -eu", "trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR"]
    for number, block in enumerate(story.blocks):
        lines.append(f"echo {NEXT}; echo {NEXT} >&2")
        if block.language == "python":
            (folder / f"program{number}.py").write_text(block.text)
            lines.append(f"python -W error {folder}/program{number}.py")
        else:
            lines.append(block.program)
    return "\n".join(lines)


def played(story: Story, play: Play, place: Place) -> Ran:
    (place.folder / "tmp").mkdir()
    if play.before is not None:
        play.before(place)
    with (
        play.around() as around,
        ScriptedServer(play.script, repeat_last=play.repeats) as server,
    ):
        place.url = server.openai_url
        values = {"SERVER": server.openai_url, "FOLDER": str(place.folder)}
        done = subprocess.run(
            ["bash", "-c", program(story, place.folder)],
            cwd=place.project,
            env={
                **place.environ,
                "PATH": PATH,
                "TMPDIR": str(place.folder / "tmp"),
                "GIT_AUTHOR_NAME": "a",
                "GIT_AUTHOR_EMAIL": "a@b",
                "GIT_COMMITTER_NAME": "a",
                "GIT_COMMITTER_EMAIL": "a@b",
                "GIT_EDITOR": "true",
                # The way to the world is closed for whoever honours them.
                "http_proxy": "http://127.0.0.1:9",
                "https_proxy": "http://127.0.0.1:9",
                "no_proxy": "127.0.0.1,localhost",
                **around,
                **{name: values.get(value, value) for name, value in play.environ.items()},
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
        )
        asked = [request.body.decode() for request in server.requests]
    outs = [part.removeprefix("\n") for part in done.stdout.split(NEXT)[1:]]
    errs = [part.removeprefix("\n") for part in done.stderr.split(NEXT)[1:]]
    return Ran(place, done.returncode, outs, errs, asked)


@pytest.mark.timeout(200)
@pytest.mark.sampled(of=2)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_page_can_be_followed(place: Place, project: Path, story: Story) -> None:
    play = PLAYS.get(story.name, Play())
    if any("jq " in block.text for block in story.blocks):
        skip_without("jq")

    ran = played(story, play, place)

    assert ran.exit_status == play.exit_status, ran.said
    assert "Traceback" not in ran.said
    for block, out, err in zip(story.blocks, ran.outs, ran.errs, strict=False):
        assert unseen(block, f"{out}\n{err}") == [], ran.said
    assert play.holds(ran), ran.said


def test_every_block_has_a_language_that_says_whether_it_runs() -> None:
    assert [block.name for block in ALL if block.language not in RUN | SHOWN] == []


def test_commands_stand_in_blocks_that_run() -> None:
    hidden = [
        block.name
        for block in ALL
        if block.language == "text" and re.search(r"^(\$ |kode |git |pip )", block.text, re.M)
    ]
    assert hidden == []


def test_blocks_that_cannot_run_and_plays_are_those_of_pages() -> None:
    assert set(CANNOT_RUN) <= {block.name for block in ALL}
    assert set(PLAYS) <= {story.name for story in STORIES}


@pytest.mark.parametrize(
    ("language", "load"), [("json", json.loads), ("yaml", yaml.safe_load), ("toml", tomllib.loads)]
)
def test_files_on_pages_can_be_read(language, load) -> None:
    for block in ALL:
        if block.language == language:
            load(block.text)
