"""What commands that make, change or delete files would do. Readers are in `shell_readers`."""

import glob
import itertools
import os
import re
from dataclasses import replace

from kode.permissions import sensitive
from kode.permissions import shell_table as table
from kode.permissions.shell_judge import (
    Finding,
    Scene,
    destructive,
    network,
    safe,
    system,
    together,
    unknown,
    write,
)
from kode.permissions.shell_options import has_flag, has_option, option_values, positionals
from kode.permissions.shell_paths import (
    absolute,
    deletes_path,
    reads_path,
    sweeps_below,
    writes_path,
)
from kode.permissions.shell_readers import loads_code
from kode.permissions.shell_words import UNKNOWN, Word


def rm(words: list[Word], scene: Scene) -> Finding:
    targets = positionals(words[1:])
    if not targets:
        return destructive("deletes files") if len(words) > 1 else safe("prints help")
    return together(*(deletes_path(word, scene) for word in targets))


MAX_LANDINGS = 200


def two_places(words: list[Word], scene: Scene) -> Finding:
    """cp, mv, ln, install: sources, then where to."""
    name = os.path.basename(words[0].text)
    arguments = words[1:]
    targets = option_values(arguments, ("--target-directory", "-t"))
    given = positionals(
        arguments,
        (
            "-t",
            "--target-directory",
            "-S",
            "--suffix",
            "-m",
            "--mode",
            "-o",
            "-g",
            "--owner",
            "--group",
        ),
    )
    if name == "install" and has_option(arguments, "-d", "--directory"):
        return together(write("makes folders"), *(writes_path(w, scene) for w in given))
    if name == "install" and has_option(arguments, "--strip-program"):
        return unknown("runs a program")
    if not targets and given:
        targets, given = given[-1:], given[:-1]
    if name == "ln" and not given:
        targets, given = [Word(".")], targets
    careful = has_flag(
        arguments, "-n", "--no-clobber", "-b", "--backup", "-i", valued="tSmog"
    ) and not (name != "install" and has_option(arguments, "-f", "--force"))
    forced = name != "ln" or has_option(arguments, "-f", "--force")
    found = [
        writes_path(landing, scene, replaces=forced and not careful)
        for w in targets
        for landing in _landings(w, given, scene)
    ]
    for source in given:
        found.append(_taken(name, source, scene))
    empties = name == "cp" or (name == "ln" and forced)
    if empties and any(w.text == "/dev/null" for w in given):
        found.append(destructive("empties a file"))
    if name == "mv" and any(w.text.startswith("/dev/") for w in targets):
        found.append(destructive("moves files to nowhere"))
    return together(write(), *found)


def _landings(target: Word, sources: list[Word], scene: Scene) -> list[Word]:
    """The files that would be written: inside the target when that is a folder."""
    path = absolute(target, scene)
    if path is None or UNKNOWN in path or target.glob or not sources:
        return [target]
    if not (os.path.isdir(path) or target.text.endswith("/")):
        return [target]
    names: list[str] = []
    for source in sources:
        if source.glob and (origin := absolute(source, scene)) is not None:
            names += itertools.islice(glob.iglob(origin), MAX_LANDINGS)
        elif source.known:
            names.append(source.text)
    return [
        target,
        *(Word(f"{path}/{os.path.basename(name.rstrip('/'))}") for name in names[:MAX_LANDINGS]),
    ]


def _taken(name: str, source: Word, scene: Scene) -> Finding:
    read = reads_path(source, scene)
    if read.klass in ("system", "unknown"):
        if name == "mv" and read.klass == "unknown" and not source.known:
            return read
        if name == "ln" and read.klass == "unknown":
            return unknown("links to what lies outside the project")
        if name != "mv":
            return read
    if name == "mv":
        return together(read, writes_path(source, scene))
    return read


def writes_all(words: list[Word], scene: Scene) -> Finding:
    """Every argument is a file or folder that is made or changed."""
    if os.path.basename(words[0].text) == "patch":
        if has_flag(words[1:], "--dry-run", valued="pdoirFBVDYzZg"):
            return safe("only tells what would change")
        folders = option_values(words[1:], ("--directory", "-d", "--output", "-o"))
        given = positionals(words[1:], ("-p", "-d", "-o", "-i", "-r", "-F", "-B", "-V"))
        return together(write(), *(writes_path(w, scene) for w in (*folders, *given[:1])))
    name = os.path.basename(words[0].text)
    given = positionals(words[1:], _VALUES_OF_MAKERS.get(name, "").split())
    if name == "mktemp":
        given += option_values(words[1:], ("--tmpdir", "-p"))
    return together(write(), *(writes_path(w, scene) for w in given))


_VALUES_OF_MAKERS = {
    "mkdir": "-m --mode",
    "mkfifo": "-m --mode",
    "touch": "-d --date -t -r --reference",
    "mktemp": "-p --tmpdir --suffix -t",
}


def tee(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words[1:])
    appends = has_option(words[1:], "-a", "--append")
    return together(safe("prints"), *(writes_path(w, scene, replaces=not appends) for w in given))


def split(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--filter"):
        return unknown("runs a program for each piece")
    given = positionals(words[1:], ("-l", "-b", "-C", "-n", "-a", "-t"))
    return together(
        write("makes files"),
        *(reads_path(w, scene) for w in given[:1]),
        *(writes_path(w, scene) for w in given[1:2]),
    )


def truncate(words: list[Word], scene: Scene) -> Finding:
    found = [writes_path(w, scene) for w in positionals(words[1:], ("-s", "--size", "-r"))]
    if not all(one.klass == "write" for one in found):
        return together(write(), *found)
    for one in found:
        if not all(sensitive.is_rebuildable(path, scene.where) for path in one.writes):
            return replace(destructive("empties a file"), writes=one.writes)
    return together(write(), *found)


def dd(words: list[Word], scene: Scene) -> Finding:
    found = [safe("copies to its output")]
    for word in words[1:]:
        key, _, value = word.text.partition("=")
        if not word.known and key not in ("bs", "count"):
            found.append(unknown("where it writes is not known beforehand"))
        elif key == "if":
            found.append(reads_path(Word(value), scene))
        elif key == "of":
            found.append(writes_path(Word(value), scene, replaces=True))
    return together(*found)


def chmod(words: list[Word], scene: Scene) -> Finding:
    name = os.path.basename(words[0].text)
    given = [w for w in words[1:] if not re.fullmatch(r"-[RvcfHLP]+|--[\w-]+(=.*)?", w.text)]
    if name != "chmod" or not given:
        return system("changes owners or attributes")
    if has_option(words[1:], "--reference"):
        return together(write("changes rights"), *(writes_path(w, scene) for w in given))
    mode, targets = given[0].text, given[1:]
    if re.search(r"s|t", re.sub(r"[^+=\w,-]", "", mode)) or re.fullmatch(r"[4-7]\d{3}", mode):
        return system("gives a program the rights of its owner")
    recursive = has_option(words[1:], "-R", "--recursive")
    takes = re.fullmatch(r"0*[0-3]?00|0+|[augo]*[-=](?:[rwx]*)", mode) and not re.search(
        r"=\w*r|-w$", mode
    )
    found = [writes_path(w, scene) for w in targets]
    worst = together(write("changes rights"), *found)
    if recursive and takes and worst.klass != "safe":
        return destructive("locks everybody out of files")
    return worst


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


_OWN_OUTPUTS = re.compile(
    r"--(?:cpp|csharp|java|js|kotlin|objc|php|pyi|python|ruby|rust|descriptor_set)_out"
)


def _runs_code(name: str, arguments: list[Word]) -> bool:
    """Options of single programs that run code, where no common name tells."""
    dangers = table.WRITER_DANGERS.get(name, "").split()
    if any(w.text.split("=", 1)[0] in dangers for w in arguments):
        return True
    if name == "protoc":
        outputs = [w.text.split("=", 1)[0] for w in arguments if "_out" in w.text]
        return any(not _OWN_OUTPUTS.fullmatch(text) for text in outputs)
    return False


def _attached_paths(arguments: list[Word]) -> list[Word]:
    """Places outside the project in options: `--outfile=/etc/x`, `-o/etc/x`."""
    out = []
    for word in arguments:
        match = re.match(r"--[\w-]+=([/~].*|\.\./.*)|-[a-zA-Z]([/~].*)", word.text, re.DOTALL)
        if match:
            out.append(Word(match[1] or match[2], word.glob))
    return out


def code_free(name: str, words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(
        arguments,
        "--unzip-command",
        "-TT",
        "--use-compress-program",
        "--plugin",
        "--config",
        "--plugin-search-dir",
        "--lua-filter",
        "--filter",
        "--target-version-x",
        "-TT",
        "--pdf-engine",
        "--loader",
        "--require",
    ):
        return unknown("an option that may run a program")
    if loads_code(words) or _runs_code(name, arguments):
        return unknown("an option that may run a program")
    if name in ("convert", "magick", "mogrify") and any(
        re.match(r"[|@]|[a-zA-Z]{2,}:", w.text) for w in arguments
    ):
        return unknown("reads from more than a picture")
    if any(re.match(r"(?:https?|ftp|sftp|s3|gs|rtmp|rtsp|tcp|udp)://", w.text) for w in arguments):
        return network("asks another machine")
    if name in ("ruff", "black") and any(
        w.text in ("server", "clean", "--version", "version", "rule", "linter")
        for w in arguments[:1]
    ):
        return safe("prints") if arguments[0].text != "clean" else write()
    if name in ("gzip", "gunzip", "bzip2", "xz", "zstd", "unxz", "bunzip2") and has_flag(
        arguments, "-c", "-t", "-l", "--stdout", "--test", "--list", "--to-stdout", valued="SoDTMFC"
    ):
        return together(safe("prints"), *(reads_path(w, scene) for w in positionals(arguments)))
    if name == "zip" and has_option(arguments, "-m", "--move"):
        return destructive("deletes files")
    given = [
        w
        for w in positionals(arguments)
        if "/" in w.text or w.text.startswith("~") or name in ("mkdir", "rmdir", "touch", "zip")
    ]
    found = [writes_path(Word(w.text.split("**")[0] or ".", w.glob), scene) for w in given]
    found += [writes_path(w, scene) for w in _attached_paths(arguments)]
    outputs = option_values(arguments, ("--output", "--output-file", "--outfile", "-o"))
    if name in ("convert", "magick") or (name == "ffmpeg" and has_option(arguments, "-y")):
        outputs += positionals(arguments)[-1:]
    found += [writes_path(w, scene, replaces=True) for w in outputs]
    found += [reads_path(w, scene) for w in positionals(arguments) if reads_path(w, scene).secret]
    if name == "zip" and has_option(arguments, "-r", "-R", "--recurse-paths"):
        found.append(sweeps_below(positionals(arguments)[1:], scene))
    if name in table.CHECK_ONLY and not any(
        w.text in table.WRITE_OPTIONS or re.fullmatch(r"-[a-z]*[wi][a-z]*", w.text)
        for w in arguments
    ):
        return together(safe("prints"), *(reads_path(w, scene) for w in positionals(arguments)))
    return together(write("changes files of the project"), *found)
