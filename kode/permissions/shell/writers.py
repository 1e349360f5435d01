"""What commands that make, change or delete files would do. Readers are in `readers`."""

import glob
import itertools
import os
import re
from dataclasses import replace

from kode.permissions import sensitive
from kode.permissions.shell import table
from kode.permissions.shell.judge import (
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
from kode.permissions.shell.options import has_flag, has_option, option_values, positionals
from kode.permissions.shell.paths import (
    absolute,
    deletes_path,
    is_disposable,
    reads_path,
    secrets_named,
    sweeps_below,
    would_lose,
    writes_path,
)
from kode.permissions.shell.readers import loads_code
from kode.permissions.shell.words import FOUND, KEPT, UNKNOWN, Word


def rm(words: list[Word], scene: Scene) -> Finding:
    targets = positionals(words[1:])
    if not targets:
        return destructive("deletes files") if len(words) > 1 else safe("prints help")
    return together(*(deletes_path(word, scene) for word in targets))


MAX_LANDINGS = 200
MAX_MERGED = 5_000
"""Files that are looked at one by one; more are not trusted to replace nothing."""


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
    if name == "mv" and any(_lies(w, ("temp",), scene) for w in targets):
        found += [
            destructive("moves files to where nothing stays") for w in given if _kept(w, scene)
        ]
    if name == "install" and any(
        re.fullmatch(r"[2-7]\d{3}|.*[+=]\w*s.*", w.text)
        for w in option_values(arguments, ("--mode", "-m"))
    ):
        found.append(system("gives a program the rights of its owner"))
    if name == "cp" and not careful and has_option(arguments, "-r", "-R", "-a", "--recursive"):
        found += [merge_finding(source, w, scene) for w in targets for source in given]
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


def _lies(word: Word, places: tuple[str, ...], scene: Scene) -> bool:
    path = absolute(word, scene)
    return path is not None and sensitive.place(path, scene.where) in places


def _kept(word: Word, scene: Scene) -> bool:
    """Whether it is a file or folder of the project that no build makes again."""
    path = absolute(word, scene)
    if path is None or not _lies(word, ("root",), scene):
        return False
    return not sensitive.is_rebuildable(path.replace(FOUND, "").replace(KEPT, ""), scene.where)


def merge_finding(source: Word, target: Word, scene: Scene) -> Finding:
    """Copying a folder into one that is there: what has the same name is replaced."""
    origin, place = absolute(source, scene), absolute(target, scene)
    if origin is None or place is None or not os.path.isdir(origin) or not os.path.isdir(place):
        return safe("copies")
    if not source.text.endswith(("/", "/.")) and source.text != ".":
        place = f"{place}/{os.path.basename(origin)}"
    looked = 0
    for folder, _, names in os.walk(origin):
        inside = os.path.normpath(f"{place}/{os.path.relpath(folder, origin)}")
        looked += len(names)
        if looked > MAX_MERGED or any(would_lose(f"{inside}/{name}", scene) for name in names):
            return replace(destructive("replaces files that have content"), writes=(place,))
    return safe("copies")


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
        folders = option_values(words[1:], ("--directory", "-d"))
        given = positionals(words[1:], ("-p", "-d", "-o", "-i", "-r", "-F", "-B", "-V"))
        outputs = option_values(words[1:], ("--output", "-o"))
        return together(
            write(),
            *(writes_path(w, scene) for w in (*folders, *given[:1])),
            *(writes_path(w, scene, replaces=True) for w in outputs),
        )
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
        if not all(is_disposable(path, scene) for path in one.writes):
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
    if name == "zip" and has_option(arguments, "-@", "--names-stdin"):
        return unknown("packs files that are not named")
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
    found += secrets_named(words, scene)
    if name == "zip" and has_option(arguments, "-r", "-R", "--recurse-paths"):
        found.append(sweeps_below(positionals(arguments)[1:], scene))
    if name in table.CHECK_ONLY and not any(
        w.text in table.WRITE_OPTIONS or re.fullmatch(r"-[a-z]*[wi][a-z]*", w.text)
        for w in arguments
    ):
        return together(safe("prints"), *(reads_path(w, scene) for w in positionals(arguments)))
    return together(write("changes files of the project"), *found)
