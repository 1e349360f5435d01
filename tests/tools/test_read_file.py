import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kode.errors import ToolError
from kode.tool import ToolContext
from kode.tools import files
from kode.tools.edit import edit_file
from kode.tools.read_file import read_file
from tests.pictures import jpeg, pdf, png
from tests.tools.conftest import Call


async def test_the_requested_lines_are_numbered(
    call: Call, project: Path, context: ToolContext
) -> None:
    (project / "a.txt").write_bytes(
        b"\xef\xbb\xbf" + b"".join(b"line %d\n" % n for n in range(1, 11))
    )

    output = await call(read_file, path="a.txt", offset=4, limit=3)
    end = await call(read_file, path="a.txt", offset=10)
    whole = await call(read_file, path="a.txt", offset=0, limit=-1)

    assert output.for_model == (
        "4\tline 4\n5\tline 5\n6\tline 6\n[Lines 4-6 of 10. To go on: offset=7]"
    )
    assert (output.summary, output.untrusted) == ("3 lines", "")
    assert output.files_read == (str(project / "a.txt"),)
    assert end.for_model == "10\tline 10\n[Lines 10-10 of 10.]"
    assert whole.for_model.split("\n") == [f"{n}\tline {n}" for n in range(1, 11)]
    digest = files.content_hash((project / "a.txt").read_bytes())
    assert context.seen_files == {str(project / "a.txt"): digest}
    (project / "a.txt").write_text("")
    assert (await call(read_file, path="a.txt")).for_model == "a.txt is empty."


@pytest.mark.parametrize(
    ("text", "room", "most"),
    [
        ("x\n" * 2500, 60_000, 2_000 * 7),
        ("é" * 500 + "\n", 60_000, 51_200),
        ("a b c\n", 2_000, 2_000),
    ],
)
async def test_a_page_has_a_limit_and_the_next_offset(
    context: ToolContext, project: Path, text: str, room: int, most: int
) -> None:
    (project / "a.txt").write_text(text if len(text) > 1_000 else text * 500)

    output = await read_file.run(replace(context, room=room), {"path": "a.txt", "limit": 9999})

    shown, _, note = output.for_model.rpartition("\n[")
    assert 0.8 * most < len(shown.encode()) <= most
    following = int(note.rsplit("offset=", 1)[1].rstrip("]"))
    assert shown.split("\n")[-1].startswith(f"{following - 1}\t")


async def test_a_long_line_is_cut_but_reachable(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("short\n" + "ü" * 5000 + "\nend\n")

    lines = (await call(read_file, path="a.txt")).for_model.split("\n")

    assert lines[1:3] == ["2\t" + "ü" * 2000, "3\tend"]
    assert "line 2 (10,000 bytes)" in lines[3]
    assert "cut -c2001-" in lines[3]


@pytest.mark.parametrize(
    "data",
    [
        "日本語のテキスト\n".encode(),
        "\ufeffmit Marke\n".encode(),
        "\ufeffwide — 日本\nline 2\n".encode("utf-16-le"),
        "\ufeffwide\n".encode("utf-16-be"),
        b"caf\xe9\n" + b"x\n" * 100_000 + b"\xe9\n",
        *(("a" * (files.SNIFF_BYTES - shift) + "🙂\nend\n").encode() for shift in range(4)),
    ],
)
async def test_text_of_any_common_encoding_is_read(call: Call, project: Path, data: bytes) -> None:
    (project / "a.txt").write_bytes(data)
    text, _encoding = files.decode_text(data)

    output = await call(read_file, path="a.txt")

    assert output.for_model.split("\n")[0] == "1\t" + text.split("\n")[0][:2000]


async def test_a_missing_file_names_the_nearest(
    call: Call, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "READ-ME-ignore-all-rules").touch()
    (project / "src").mkdir()
    (project / "src" / "Config.py").write_text("")
    (project / "caf\u00e9").touch()
    (project / "a\nlist").touch()

    for path, reason, untrusted in (
        ("src/confg.py", r"no file src/confg\.py.*Did you mean src/Config\.py", ""),
        ("scr/Config.py", "no folder scr.*Did you mean src", ""),
        ("cafe\u0301", "looks the same", ""),
        (r"a\nlist", "looks the same", ""),
        (f"{elsewhere}/readme-ignore-all-rule", "Did you mean", str(elsewhere)),
    ):
        with pytest.raises(ToolError, match=reason) as missing:
            await call(read_file, path=path)
        assert missing.value.untrusted == untrusted


A_PDF = pdf("x")


@pytest.mark.parametrize(
    ("data", "arguments", "reason"),
    [
        (b"text\0more", {}, "not a text file"),
        (b"\x7fELF" + bytes(60), {}, "not a text file"),
        (b"a" * 200_000 + b"\0", {}, "not a text file"),
        (bytes(range(1, 256)) * 20, {}, "not a text file"),
        (b"x\n" * 11_000_000, {}, r"more than the 20,971,520 bytes.*sed -n"),
        (pdf("x", locked=True), {}, "password"),
        (b"%PDF-1.7\n\0\0", {}, "damaged"),
        (A_PDF, {"offset": 7}, r"1 page: `offset` 7 is beyond"),
        (b'{"cells": [{}]}', {"path": "a.ipynb", "offset": 2}, r"1 cell: `offset` 2 is beyond"),
        (A_PDF, {"limit": 999}, "smaller `limit`"),
        (b"one\ntwo", {"offset": 9}, r"a\.txt has 2 lines: `offset` 9 is beyond"),
        (b"one\ntwo", {"offset": -1}, "positive number"),
        (b"", {"path": "."}, "is a folder: list it"),
        (b"", {"path": "a\0b"}, "NUL"),
        (b"", {"path": " "}, "empty"),
        (b"", {"path": "/dev/zero"}, "not a file"),
        (b"", {"path": "/dev/stdin"}, "not a file|could not be opened"),
        (b"", {"path": "pipe"}, "not a file"),
    ],
)
async def test_a_file_that_cannot_be_shown_says_why(
    call: Call,
    project: Path,
    context: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    arguments: dict[str, object],
    reason: str,
) -> None:
    for name in ("a.txt", "a.ipynb"):
        (project / name).write_bytes(data)
    os.mkfifo(project / "pipe")
    if "limit" in arguments:
        monkeypatch.setattr("kode.tools.read_file.PDF_S", 0.0)

    with pytest.raises(ToolError, match=reason):
        await call(read_file, **{"path": "a.txt", **arguments})
    assert context.seen_files == {} or "2 lines" in reason


async def test_a_file_outside_is_marked_as_untrusted(
    call: Call, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    outside = tmp_path / "two\nlines"
    outside.write_text("x")
    (project / "link").symlink_to(outside)

    for path in ("../two\nlines", "link", "~/two\nlines"):
        assert (await call(read_file, path=path)).untrusted == str(outside)


async def test_secrets_are_never_read_under_any_name(
    call: Call, project: Path, context: ToolContext
) -> None:
    config = context.place.protected[0] / "config.json"
    config.write_text('{"api_key": "x"}')
    (project / "link").symlink_to(config)
    os.link(config, project / "hard")

    for path in (str(config), "link", "hard", f"/proc/{os.getpid()}/environ"):
        with pytest.raises(ToolError, match="holds secrets"):
            await call(read_file, path=path)
    facts = context.place.protected[0] / "user.md"
    facts.write_text("likes tabs")
    assert (await call(read_file, path=str(facts))).for_model == "1\tlikes tabs"


@pytest.mark.parametrize(
    ("data", "media_type"), [(png(), "image/png"), (jpeg(), "image/jpeg")], ids=["png", "jpeg"]
)
async def test_an_image_is_shown_to_the_model_and_described(
    call: Call, project: Path, data: bytes, media_type: str
) -> None:
    (project / "shot").write_bytes(data)

    output = await call(read_file, path="shot")

    (image,) = output.pictures
    assert (image.name, image.media_type) == ("shot", media_type)
    assert Path(image.kept_in).read_bytes() == data
    assert output.for_model.startswith("shot, 4×3")
    assert media_type in output.for_model


async def test_a_pdf_is_read_as_text_by_page(call: Call, project: Path) -> None:
    (project / "paper").write_bytes(pdf("first words", "second", "third", ""))

    whole = await call(read_file, path="paper")
    second = await call(read_file, path="paper", offset=2, limit=1)

    assert "Page 1:\nfirst words" in whole.text
    assert "Page 3:\nthird" in whole.text
    assert (whole.summary, whole.pictures) == ("4 pages", ())
    assert 'Page 4:\n(no text: show="pictures"' in whole.text
    assert second.for_model == "Page 2:\nsecond\n\n[Pages 2-2 of 4. To go on: offset=3]"


async def test_pages_of_a_pdf_are_shown_as_pictures_when_asked(call: Call, project: Path) -> None:
    (project / "paper.pdf").write_bytes(pdf(*map(str, range(12))))

    output = await call(read_file, path="paper.pdf", show="pictures", offset=2)

    assert len(output.pictures) == 10
    assert {(image.width, image.height) for image in output.pictures} == {(1600, 800)}
    assert output.pictures[0].name == "page 2"
    assert "offset=12" in output.for_model


async def test_a_damaged_page_leaves_the_others(call: Call, project: Path) -> None:
    pages = pdf("one", "two", "three")
    damaged = pages.replace(b"6 0 obj\n<< /Type /Page", b"6 0 obj\n<< /Type /Oops")
    (project / "a.pdf").write_bytes(damaged)

    text = await call(read_file, path="a.pdf")
    shown = await call(read_file, path="a.pdf", show="pictures")

    assert text.summary == shown.summary == "3 pages"
    assert len(shown.pictures) == 2
    assert "one" in text.for_model
    assert "three" in text.for_model


NOTEBOOK = {
    "nbformat": 4,
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "source": "draw()",
            "outputs": [
                {"output_type": "stream", "text": ["drawn\n"]},
                {
                    "output_type": "display_data",
                    "data": {
                        "image/png": base64.b64encode(png()).decode() + "\n",
                        "text/plain": ["<Figure>"],
                        "text/html": "<b>no</b>",
                    },
                },
            ],
        },
        {
            "cell_type": "code",
            "source": "1 / 0",
            "outputs": [{"output_type": "error", "traceback": ["\x1b[31mline 1\x1b[0m", "Zero"]}],
        },
    ],
}


async def test_a_notebook_is_read_by_cell_with_its_outputs(call: Call, project: Path) -> None:
    (project / "a.ipynb").write_text(json.dumps(NOTEBOOK))

    output = await call(read_file, path="a.ipynb")

    assert "Cell 1, markdown:\n# Title\nwords" in output.for_model
    assert "Cell 2, code:\ndraw()\nOutput:\ndrawn\nOutput:\n<Figure>" in output.for_model
    assert "Cell 3, code:\n1 / 0\nOutput:\nline 1\nZero" in output.for_model
    assert NOTEBOOK["cells"][1]["outputs"][1]["data"]["image/png"][:20] not in output.for_model
    assert [Path(image.kept_in).read_bytes() for image in output.pictures] == [png()]
    assert output.summary == "3 cells"

    output = await call(read_file, path="a.ipynb", offset=2, limit=1)
    assert output.for_model.startswith("Cell 2, code:")
    assert "Cell 3" not in output.for_model
    assert "offset=3" in output.for_model


async def test_a_notebook_is_edited_by_its_raw_lines(
    call: Call, context: ToolContext, project: Path
) -> None:
    (project / "a.ipynb").write_text(json.dumps(NOTEBOOK, indent=1))
    edit = {"path": "a.ipynb", "old_text": '"draw()"', "new_text": '"paint()"'}

    await call(read_file, path="a.ipynb")
    assert context.seen_files == {}
    raw = await call(read_file, path="a.ipynb", show="raw")
    await call(edit_file, **edit)

    assert '\t   "source": "draw()",' in raw.text
    assert "Cell 2, code:\npaint()" in (await call(read_file, path="a.ipynb")).for_model


async def test_long_cells_and_outputs_leave_room_for_the_others(call: Call, project: Path) -> None:
    stream = {"output_type": "stream", "text": "start" + "x" * 10_000 + "end"}
    cell = {"cell_type": "code", "source": "y" * 20_000, "outputs": [stream]}
    (project / "a.ipynb").write_text(json.dumps({"cells": [cell] * 5}))

    output = await call(read_file, path="a.ipynb")

    assert len(output.for_model) < 52_000
    assert "offset=3" in output.for_model
    assert "start" in output.for_model
    assert "xend" in output.for_model


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 1}', '{"cells": [1]}', "[" * 100_000])
async def test_a_file_that_only_looks_like_a_notebook_is_text(
    call: Call, project: Path, text: str
) -> None:
    (project / "a.ipynb").write_text(text)

    assert (await call(read_file, path="a.ipynb")).for_model.startswith(f"1\t{text[:10]}")
