"""What archivers would do: `tar`, `unzip`, and those that only list here."""

import re

from kode.permissions.shell.judge import (
    Finding,
    Scene,
    destructive,
    safe,
    together,
    unknown,
    write,
)
from kode.permissions.shell.options import has_flag, has_option, option_values, positionals
from kode.permissions.shell.paths import (
    reads_path,
    sweeps_below,
    writes_path,
)
from kode.permissions.shell.words import UNKNOWN, Word


def tar(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    dangers = (
        "--checkpoint-action",
        "--to-command",
        "--use-compress-program",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "--rmt-command",
        "--absolute-names",
        "--recursive-unlink",
        "--one-top-level",
        "--transform",
        "--xform",
        "--files-from",
        "--exclude-from",
        "--index-file",
        "--listed-incremental",
    )
    if has_option([w for w in arguments if w.text.split("=", 1)[0] not in _TAR_WORDS], *dangers):
        return unknown("an option that runs a program or writes elsewhere")
    mode = _tar_letters(arguments)
    attached = any(
        re.match(r"-[a-zA-Z]*[IFVXTgP]", w.text) and not re.match(r"-[Cf]", w.text)
        for w in arguments
    )
    if attached or re.search(r"[IFPTVgX]", mode):
        return unknown("an option that runs a program or writes elsewhere")
    if has_option(arguments, "--remove-files"):
        return destructive("deletes files")
    return _tar_mode(mode, arguments, scene)


_TAR_WORDS = {
    "--create": "c",
    "--extract": "x",
    "--get": "x",
    "--list": "t",
    "--append": "r",
    "--update": "u",
    "--delete": "D",
    "--diff": "d",
    "--compare": "d",
    "--to-stdout": "O",
    "--file": "f",
}


def _tar_letters(arguments: list[Word]) -> str:
    """The letters of its short options, and those that long ones stand for. A word behind a letter
    that takes a value is that value; without a dash in the first, all values come behind."""
    letters = ""
    for index, word in enumerate(arguments):
        text = word.text
        if text.startswith("--"):
            name = text.split("=", 1)[0]
            letters += next((v for k, v in _TAR_WORDS.items() if k.startswith(name)), "")
        elif text.startswith("-"):
            before = re.split(r"([fCbgKLNHIFTVX])", text[1:], maxsplit=1)
            letters += "".join(before[:2])
        elif index == 0:
            letters += text
    return letters


def _tar_mode(mode: str, arguments: list[Word], scene: Scene) -> Finding:
    given = [w for w in arguments[1:] if not w.text.startswith("-")]
    archives = [Word(w.text.split("=", 1)[1]) for w in arguments if w.text.startswith("--file=")]
    if "f" in mode and given:
        archives, given = given[:1], given[1:]
    if any(":" in w.text for w in archives):
        return unknown("an archive on another machine")
    folders = option_values(arguments, ("--directory", "-C"))
    given = [w for w in given if w not in folders]
    if sum(letter in mode for letter in "ctxruD") > 1 or "D" in mode:
        return unknown("not a known form of tar")
    if "t" in mode or "d" in mode:
        return together(safe("lists an archive"), *(reads_path(w, scene) for w in archives))
    if "x" in mode:
        if "O" in mode:
            return together(safe("prints"), *(reads_path(w, scene) for w in archives))
        return together(
            write("unpacks"),
            *(reads_path(w, scene) for w in archives),
            *(writes_path(w, scene) for w in folders),
        )
    if re.search(r"[cru]", mode):
        found = [
            reads_path(Word(w.text.replace(UNKNOWN, ""), w.glob), scene)
            if w.known
            else unknown("what it packs is not known")
            for w in (*given, *folders)
        ]
        left_out = [w.text for w in option_values(arguments, ("--exclude",))]
        return together(
            write("packs"),
            *(writes_path(w, scene, replaces=True) for w in archives if w.text != "-"),
            *found,
            sweeps_below(given or folders, scene, without=left_out),
        )
    return unknown("not a known form of tar")


def unzip(words: list[Word], scene: Scene) -> Finding:
    if has_flag(words[1:], "-l", "-t", "-Z", "-v", "-p", "-c", valued="dxPO"):
        given = positionals(words[1:])
        return together(safe("lists an archive"), *(reads_path(w, scene) for w in given[:1]))
    if any(re.fullmatch(r"-\w*:\w*", w.text) for w in words[1:]):
        return unknown("unpacks outside its folder")
    folders = option_values(words[1:], ("-d",))
    return together(
        write("unpacks"),
        *(writes_path(w, scene) for w in folders),
        *(reads_path(w, scene) for w in positionals(words[1:], ("-d", "-x"))[:1]),
    )


def archive(words: list[Word], scene: Scene) -> Finding:
    """`ar t`, `7z l`, `unrar l`: what an archive holds. The rest is not known."""
    looks = ("t", "tv", "p") if words[0].text.endswith("ar") else ("l", "t")
    given = words[2:]
    if not given or words[1].text not in looks or any(w.text.startswith("@") for w in given):
        return unknown("works on an archive")
    return together(safe("lists an archive"), *(reads_path(w, scene) for w in positionals(given)))
