"""What one command would do: finds its judge by its name. Words in, a `Finding` out.

File commands are judged here; git, wrappers and development tools have modules of their own.
What is in no table is `unknown`.
"""

import os
import re
from collections.abc import Callable

from kode.permissions import sensitive
from kode.permissions import shell_table as table
from kode.permissions.shell_git import git
from kode.permissions.shell_judge import (
    Finding,
    Scene,
    absolute,
    deletes_path,
    destructive,
    has_option,
    network,
    option_values,
    positionals,
    reads_path,
    safe,
    system,
    together,
    unknown,
    with_more,
    write,
    writes_path,
)
from kode.permissions.shell_scripts import awk_is_plain, jq_is_plain, sed_is_plain
from kode.permissions.shell_tools import TOOLS, development_tool
from kode.permissions.shell_words import FOUND, UNKNOWN, Word
from kode.permissions.shell_wrappers import (
    SHELLS,
    WRAPPERS,
    a_shell,
    command_builtin,
    env,
    evaluate,
    flock,
    remote_shell,
    sourced,
    su,
    trap,
    watch,
    wrapped,
    xargs,
)

Judge = Callable[[list[Word], Scene], Finding]


def judge(words: list[Word], scene: Scene) -> Finding:
    """What a command would do. `words` holds the program's name first and is not empty."""
    verb = words[0]
    if not verb.known or verb.glob or not verb.text or FOUND in verb.text:
        return unknown("which program runs is not known beforehand")
    name, foreign = _program(verb.text, scene)
    if name == "-":
        return unknown("which program runs is not known beforehand")
    found = _judge_named(name, words, scene)
    if not foreign:
        return found
    return (
        together(unknown("a program outside the system's folders"), found)
        if (not foreign.development or found.klass in ("system", "destructive"))
        else found
        if found.development
        else together(foreign, found)
    )


def _program(text: str, scene: Scene) -> tuple[str, Finding | None]:
    """The name a program is known by, and a finding when it lies in no system folder."""
    if "/" not in text:
        return text, None
    folder, name = os.path.split(os.path.normpath(text))
    if folder in table.SYSTEM_FOLDERS:
        return name or "-", None
    if scene.cwd is not None:
        path = os.path.normpath(os.path.join(scene.cwd, text))
        own = [f"{root}/{tools}" for root in scene.where.roots for tools in table.TOOL_FOLDERS]
        if os.path.dirname(path) in own or name in ("gradlew", "mvnw"):
            inside = any(sensitive.below(path, root) for root in scene.where.roots)
            development = Finding(
                klass="unknown", reason="a tool the project brings", development=inside
            )
            return name or "-", development
    return name or "-", unknown("a program outside the system's folders")


def _judge_named(name: str, words: list[Word], scene: Scene) -> Finding:
    if (
        len(words) == 2
        and name in table.VERSION_ASKERS
        and words[1].text in ("--version", "-V", "--help", "-version")
    ):
        return safe("prints its version or help")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words, scene)
    if name in WRAPPERS:
        return wrapped(name, words, scene)
    if name in SHELLS:
        return a_shell(name, words, scene)
    tool = TOOLS.get(name)
    if tool is not None:
        return tool(words, scene)
    if name in table.PRINTERS:
        return _printer(name, words, scene)
    if name in table.LISTERS:
        return _reader(name, words, scene, names_only=True)
    if name in table.READERS:
        return _reader(name, words, scene, names_only=False)
    if name in table.CODE_FREE_WRITERS:
        return _code_free(name, words, scene)
    if name in table.DEVELOPMENT:
        return development_tool(words, scene)
    if re.match(r"mkfs(\.|$)|newfs", name):
        return destructive("makes a new file system")
    if re.match(r"(python|pypy|perl|ruby|lua|php|node)[\d.]*$", name):
        return TOOLS["python" if name.startswith(("python", "pypy")) else "perl"](words, scene)
    if name in table.CLASS_BY_NAME:
        return _tabled(name, words, scene)
    return unknown("a program that is not known")


def _tabled(name: str, words: list[Word], scene: Scene) -> Finding:
    klass, reason = table.CLASS_BY_NAME[name]
    looks = table.SYSTEM_LOOKS.get(name, ())
    if klass == "system" and len(words) > 1 and words[1].text in looks:
        return safe("only looks")
    if name in table.LOOKS_THAT_ARE_UNKNOWN and not any(
        re.fullmatch(
            r"add|del|delete|set|flush|up|down|change|replace|-C|-c|-w|-d|--clear|hw|-s"
            r"|link|--vacuum\S*|--rotate|-[a-z]*insert|-replace|-remove|-convert",
            w.text,
        )
        for w in words[1:]
    ):
        return unknown("looks at the machine")
    if klass == "network":
        return together(Finding(klass=klass, reason=reason), *_leaks(words, scene))
    return together(Finding(klass=klass, reason=reason), *_leaks(words, scene))


def _leaks(words: list[Word], scene: Scene) -> list[Finding]:
    """Findings for secrets among the arguments of a command that reads files at will."""
    found = []
    for word in words[1:]:
        text = re.sub(r"^(?:--?[\w-]+=?)?@?(?:\w+=@)?", "", word.text) or word.text
        for piece in {word.text, text}:
            read = reads_path(Word(piece, word.glob), scene)
            if read.secret:
                found.append(read)
    return found


# ── readers ──────────────────────────────────────────────────────────────────────────────────


_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)


def _printer(name: str, words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], *table.READER_DANGERS.get(name, "--none").split()) and name == "hash":
        return unknown("changes where programs are looked up")
    return safe("prints")


def _reader(name: str, words: list[Word], scene: Scene, *, names_only: bool) -> Finding:
    arguments = words[1:]
    dangers = table.READER_DANGERS.get(name, "").split()
    if dangers and has_option(arguments, *dangers):
        return unknown("an option that makes it run, write or read something else")
    takes_value = table.READER_VALUE_OPTIONS.get(name, "").split()
    if name in table.READER_PATTERN_FIRST:
        return _pattern_reader(arguments, scene, takes_value)
    found = [
        reads_path(word, scene, names_only=names_only)
        for word in positionals(arguments, takes_value)
    ]
    found += _option_files(arguments, scene)
    return together(safe("prints"), *found)


def _option_files(words: list[Word], scene: Scene) -> list[Finding]:
    """Secrets and unknown pieces in options."""
    found = []
    for word in words:
        if not word.text.startswith("-"):
            continue
        if not word.known:
            found.append(unknown("options are not known beforehand"))
        value = word.text.split("=", 1)[1] if "=" in word.text else word.text[2:]
        if value and reads_path(Word(value), scene).secret:
            found.append(reads_path(Word(value), scene))
    return found


def _pattern_reader(arguments: list[Word], scene: Scene, takes_value: list[str]) -> Finding:
    given = positionals(
        arguments,
        (
            *takes_value,
            "-e",
            "-f",
            "-A",
            "-B",
            "-C",
            "-m",
            "-t",
            "-T",
            "-g",
            "--regexp",
            "--file",
            "--glob",
            "--type",
            "--iglob",
            "--include",
            "--exclude",
            "--exclude-dir",
            "--max-count",
            "--context",
            "-d",
            "-D",
            "--color",
            "-j",
            "-r",
            "-M",
        ),
    )
    if not has_option(arguments, "--regexp", "--file") and not any(
        re.match(r"-[a-zA-Z]*[ef]", w.text) for w in arguments
    ):
        given = given[1:]
    files = option_values(arguments, ("--file", "--ignore-file"))
    found = [reads_path(word, scene) for word in (*given, *files)]
    short = [
        w
        for i, w in enumerate(arguments)
        if i and re.fullmatch(r"-[a-zA-Z]*f", arguments[i - 1].text)
    ]
    found += [reads_path(w, scene) for w in short]
    return together(safe("searches"), *found, *_option_files(arguments, scene))


def _grep(words: list[Word], scene: Scene) -> Finding:
    # -r means recursion here, with nothing behind it; for rg it takes a replacement.
    arguments = [
        word for word in words[1:] if not re.fullmatch(r"-[rRnilwoHhcvEFPqsIxLazUbZ]+", word.text)
    ]
    listing = any(re.match(r"-\w*[ef]", w.text) for w in words[1:])
    if listing and arguments == words[1:]:
        return _pattern_reader(arguments, scene, [])
    return (
        _pattern_reader(words[1:], scene, [])
        if any(re.fullmatch(r"-[rRnilwoHhcvEFPqsIxLazUbZ]*e", w.text) for w in words[1:])
        else _pattern_reader(arguments, scene, [])
    )


def _rg(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--pre", "--pre-glob", "--hostname-bin", "--search-zip", "-z"):
        return unknown("runs a program for each file")
    if has_option(words[1:], "--files", "--type-list", "--version", "--help"):
        given = positionals(words[1:], ("-g", "--glob", "-t", "--type", "--iglob", "-T"))
        return together(
            safe("lists files"), *(reads_path(w, scene, names_only=True) for w in given)
        )
    return _pattern_reader(words[1:], scene, [])


def _tree(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-o", "--output", "--fromfile", "-R"):
        return unknown("writes its output somewhere")
    given = positionals(words[1:], ("-L", "-I", "-P", "-H", "-T", "--filelimit", "--charset"))
    return together(safe("lists"), *(reads_path(w, scene, names_only=True) for w in given))


def _file(words: list[Word], scene: Scene) -> Finding:
    if has_option(
        words[1:], "-C", "--compile", "-m", "--magic-file", "-S", "-f", "--files-from", "-z", "-Z"
    ):
        return unknown("reads or writes something else")
    return together(
        safe("looks at kinds of files"),
        *(
            reads_path(w, scene, names_only=True)
            for w in positionals(words[1:], ("-F", "-e", "-P"))
        ),
    )


def _sort(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(arguments, "--compress-program", "--files0-from"):
        return unknown("runs a program, or reads files that are not named")
    found = [
        reads_path(w, scene)
        for w in positionals(
            arguments, ("-k", "-t", "-o", "-S", "-T", "--key", "--output", "--parallel")
        )
    ]
    outputs = option_values(arguments, ("--output", "-o"))
    if outputs or has_option(arguments, "-o", "--output"):
        found += [writes_path(w, scene) for w in outputs] or [write()]
    return together(safe("sorts"), *found, *_option_files(arguments, scene))


def _uniq(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words[1:], ("-f", "-s", "-w"))
    found = [reads_path(w, scene) for w in given[:1]]
    found += [writes_path(w, scene, replaces=True) for w in given[1:]]
    return together(safe("drops repeated lines"), *found)


def _xxd(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-r", "-revert"):
        return unknown("writes a file from its dump")
    given = positionals(words[1:], ("-l", "-s", "-c", "-g", "-o", "-len", "-seek", "-cols"))
    found = [reads_path(w, scene) for w in given[:1]]
    found += [writes_path(w, scene, replaces=True) for w in given[1:]]
    return together(safe("dumps"), *found)


def _date(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-s", "--set"):
        return system("sets the clock")
    given = positionals(words[1:], ("-d", "--date", "-r", "-f", "-v", "-j", "--reference"))
    if any(not w.text.startswith("+") for w in given) and not has_option(words[1:], "-j"):
        return system("sets the clock") if any(w.known for w in given) else unknown("sets a date")
    return safe("prints")


def _hostname(words: list[Word], scene: Scene) -> Finding:
    if positionals(words[1:]) or has_option(words[1:], "-F", "--file", "-b"):
        return system("sets the machine's name")
    return safe("prints")


def _ps(words: list[Word], scene: Scene) -> Finding:
    if any(re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", w.text) for w in words[1:2]) or has_option(
        words[1:], "-E"
    ):
        return system("shows the variables of processes")
    return safe("lists processes")


def _echo(words: list[Word], scene: Scene) -> Finding:
    if any(re.search(r"\[.*(\$\(|`)", w.text) for w in words[1:3]) and words[0].text == "printf":
        return unknown("text that may be evaluated")
    return safe("prints")


def _test(words: list[Word], scene: Scene) -> Finding:
    if any(re.search(r"\$\(|`|\[", w.text) for w in words[1:]):
        return unknown("text that may be evaluated")
    return safe("a test")


def _sed(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(arguments, "--file", "--sandbox-off") or any(
        re.fullmatch(r"-[nErsuz]*f.*", w.text) for w in arguments
    ):
        return unknown("a script from a file")
    scripts = option_values(arguments, ("--expression",))
    scripts += [
        arguments[i + 1]
        for i, w in enumerate(arguments[:-1])
        if re.fullmatch(r"-[nErsuz]*e", w.text)
    ]
    given = positionals(arguments, ("-e", "--expression", "-l", "-ne", "-Ee", "-re", "-nEe"))
    if not scripts:
        if not given:
            return safe("prints help")
        scripts, given = given[:1], given[1:]
    if any(not s.known or not sed_is_plain(s.text) for s in scripts):
        return unknown("a sed script that may run or write something")
    in_place = any(re.match(r"-[nErsuz]*i|--in-p", w.text) for w in arguments)
    if in_place:
        return together(write("edits files in place"), *(writes_path(w, scene) for w in given))
    return together(safe("prints"), *(reads_path(w, scene) for w in given))


def _awk(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(
        arguments,
        "-f",
        "--file",
        "-i",
        "--include",
        "-l",
        "--load",
        "-E",
        "--exec",
        "-o",
        "--pretty-print",
        "-p",
        "--profile",
        "-d",
        "--dump-variables",
        "-e",
        "--source",
        "-D",
        "--debug",
    ):
        return unknown("a program from elsewhere")
    given = positionals(arguments, ("-F", "-v", "--field-separator", "--assign"))
    if not given:
        return safe("prints help")
    if not given[0].known or not awk_is_plain(given[0].text):
        return unknown("an awk program that may run or write something")
    files = [w for w in given[1:] if not re.match(r"[A-Za-z_]\w*=", w.text)]
    return together(safe("prints"), *(reads_path(w, scene) for w in files))


def _jq(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(
        arguments, "--from-file", "-L", "--rawfile", "--slurpfile", "--library-path", "--seq-file"
    ) or any(re.fullmatch(r"-[a-zA-Z]*f", w.text) for w in arguments):
        return unknown("a filter or data from elsewhere")
    if has_option(arguments, "-i", "--inplace", "--in-place", "-s", "--split-exp") and (
        words[0].text.endswith("yq")
    ):
        files = [writes_path(w, scene) for w in positionals(arguments)[-1:]]
        return together(write("edits files in place"), *files)
    pairs = [w for w in arguments if w.text not in ("--arg", "--argjson")]
    given = positionals(pairs, ("--indent", "--tab"))
    if any(w.text in ("--arg", "--argjson") for w in arguments):
        given = _without_named(arguments)
    if given and (not given[0].known or not jq_is_plain(given[0].text)):
        return (
            system("a filter that reads variables or other files")
            if (given[0].known and re.search(r"env", given[0].text))
            else unknown("a filter that is not known beforehand")
        )
    return together(safe("prints"), *(reads_path(w, scene) for w in given[1:]))


def _without_named(arguments: list[Word]) -> list[Word]:
    """jq's arguments without `--arg NAME VALUE`."""
    kept, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        if word.text in ("--arg", "--argjson"):
            del rest[:2]
        elif not word.text.startswith("-"):
            kept.append(word)
    return kept


def _find(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    starts: list[Word] = []
    rest = list(arguments)
    while rest and rest[0].text in ("-L", "-P", "-H", "-E", "-X", "-x", "-s"):
        rest.pop(0)
    while rest and not rest[0].text.startswith(("-", "(", "!", ")")):
        starts.append(rest.pop(0))
    found = safe("lists files")
    for start in starts:
        found = together(found, reads_path(start, scene, names_only=True))
    folder = starts[0].text if starts else "."
    return together(found, *_find_actions(rest, starts or [Word(".")], folder, scene))


def _find_actions(rest: list[Word], starts: list[Word], folder: str, scene: Scene) -> list[Finding]:
    found: list[Finding] = []
    index = 0
    while index < len(rest):
        text = rest[index].text
        if not rest[index].known and not text.startswith("-"):
            found.append(unknown("conditions that are not known beforehand"))
        if text == "-delete":
            safe_places = all(deletes_path(start, scene).klass == "write" for start in starts)
            found.append(
                write("deletes what a build makes again")
                if safe_places
                else destructive("deletes files")
            )
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf") and index + 1 < len(rest):
            found.append(writes_path(rest[index + 1], scene, replaces=True))
        elif text == "-files0-from":
            found.append(unknown("starts from files that are not named"))
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = index + 1
            while end < len(rest) and rest[end].text not in (";", "+"):
                end += 1
            command = [
                Word(w.text.replace("{}", f"{folder}/{FOUND}"), w.glob)
                for w in rest[index + 1 : end]
            ]
            if command:
                found.append(
                    with_more(safe("runs a command for each file"), scene.run_words(command))
                )
            index = end
        index += 1
    return found


def _fd(words: list[Word], scene: Scene) -> Finding:
    for index, word in enumerate(words):
        if word.text in ("-x", "-X", "--exec", "--exec-batch"):
            command = [Word(w.text.replace("{}", f"./{FOUND}")) for w in words[index + 1 :]]
            if not any(FOUND in w.text for w in command):
                command.append(Word(f"./{FOUND}"))
            return with_more(unknown("runs a command for each file"), scene.run_words(command))
    if has_option(words[1:], "-x", "-X", "--exec", "--exec-batch"):
        return unknown("runs a command for each file")
    return together(
        safe("lists files"),
        *(
            reads_path(w, scene, names_only=True)
            for w in positionals(words[1:], ("-e", "-t", "-d", "-E", "-g", "--type"))[1:]
        ),
    )


# ── writers ──────────────────────────────────────────────────────────────────────────────────


def _rm(words: list[Word], scene: Scene) -> Finding:
    targets = positionals(words[1:])
    if not targets:
        return destructive("deletes files") if len(words) > 1 else safe("prints help")
    return together(*(deletes_path(word, scene) for word in targets))


def _two_places(words: list[Word], scene: Scene) -> Finding:
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
    careful = has_option(arguments, "-n", "--no-clobber", "-b", "--backup", "-i")
    found = [
        writes_path(_landing(w, given, scene), scene, replaces=not careful and name != "ln")
        for w in targets
    ]
    for source in given:
        found.append(_taken(name, source, scene))
    if name == "cp" and any(w.text == "/dev/null" for w in given):
        found.append(destructive("empties a file"))
    if name == "mv" and any(w.text.startswith("/dev/") for w in targets):
        found.append(destructive("moves files to nowhere"))
    return together(write(), *found)


def _landing(target: Word, sources: list[Word], scene: Scene) -> Word:
    """The file that would be written: inside the target when that is a folder."""
    path = absolute(target, scene)
    if path is None or UNKNOWN in path or target.glob or len(sources) != 1:
        return target
    source = sources[0]
    if not (os.path.isdir(path) or target.text.endswith("/")) or not source.known or source.glob:
        return target
    return Word(f"{path}/{os.path.basename(source.text.rstrip('/'))}")


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
        leaving = writes_path(source, scene)
        return together(read, leaving) if leaving.klass != "write" else read
    return read


def _writes_all(words: list[Word], scene: Scene) -> Finding:
    """Every argument is a file or folder that is made or changed."""
    values = ("-m", "--mode", "-d", "--date", "-t", "-r", "--reference", "-p", "--prefix")
    name = os.path.basename(words[0].text)
    given = positionals(words[1:], () if name in ("mkdir", "rmdir", "tee") else values)
    if name == "mkdir":
        given = positionals(words[1:], ("-m", "--mode"))
    return together(write(), *(writes_path(w, scene) for w in given))


def _tee(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words[1:])
    appends = has_option(words[1:], "-a", "--append")
    return together(safe("prints"), *(writes_path(w, scene, replaces=not appends) for w in given))


def _split(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--filter"):
        return unknown("runs a program for each piece")
    given = positionals(words[1:], ("-l", "-b", "-C", "-n", "-a", "-f", "-d"))
    return together(
        write("makes files"),
        *(reads_path(w, scene) for w in given[:1]),
        *(writes_path(w, scene) for w in given[1:2]),
    )


def _truncate(words: list[Word], scene: Scene) -> Finding:
    found = [writes_path(w, scene) for w in positionals(words[1:], ("-s", "--size", "-r"))]
    if not all(one.klass == "write" for one in found):
        return together(write(), *found)
    for one in found:
        if not all(sensitive.is_rebuildable(path, scene.where) for path in one.writes):
            return destructive("empties a file")
    return together(write(), *found)


def _dd(words: list[Word], scene: Scene) -> Finding:
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


def _chmod(words: list[Word], scene: Scene) -> Finding:
    name = os.path.basename(words[0].text)
    given = [w for w in words[1:] if not re.fullmatch(r"-[RvcfHLP]+|--[\w-]+(=.*)?", w.text)]
    if name != "chmod" or not given:
        return system("changes owners or attributes")
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


def _tar(words: list[Word], scene: Scene) -> Finding:
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
        "--files-from",
        "--exclude-from",
        "--index-file",
        "--listed-incremental",
    )
    if has_option(arguments, *dangers):
        return unknown("an option that runs a program or writes elsewhere")
    mode = arguments[0].text.lstrip("-") if arguments else ""
    if arguments and arguments[0].text.startswith("--"):
        mode = "".join(
            w.text[2]
            for w in arguments
            if re.match(r"--(create|extract|get|list|append|update|delete|diff)", w.text)
        ).replace("g", "x")
        mode = mode.replace("e", "x").replace("l", "t")
    letters = "".join(w.text[1:] for w in arguments[1:] if re.fullmatch(r"-[a-zA-Z]+", w.text))
    attached = any(
        re.match(r"-[a-zA-Z]*[IFVXTgP]", w.text) and not re.match(r"-[Cf]", w.text)
        for w in arguments
    )
    if attached or re.search(r"[IFPTVgX]", re.sub(r"[^A-Za-z]", "", mode) + letters):
        return unknown("an option that runs a program or writes elsewhere")
    if has_option(arguments, "--remove-files"):
        return destructive("deletes files")
    return _tar_mode(mode + letters, arguments, scene)


def _tar_mode(mode: str, arguments: list[Word], scene: Scene) -> Finding:
    given = [w for w in arguments[1:] if not w.text.startswith("-")]
    archives = [Word(w.text.split("=", 1)[1]) for w in arguments if w.text.startswith("--file=")]
    if "f" in mode and given:
        archives, given = given[:1], given[1:]
    if any(":" in w.text for w in archives):
        return unknown("an archive on another machine")
    folders = option_values(arguments, ("--directory", "-C"))
    given = [w for w in given if w not in folders]
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
        return together(
            write("packs"),
            *(writes_path(w, scene, replaces=True) for w in archives if w.text != "-"),
            *found,
        )
    return unknown("not a known form of tar")


def _unzip(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-l", "-t", "-Z", "-v", "-p", "-c"):
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


def _code_free(name: str, words: list[Word], scene: Scene) -> Finding:
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
    if name in ("ruff", "black") and any(
        w.text in ("server", "clean", "--version", "version", "rule", "linter")
        for w in arguments[:1]
    ):
        return safe("prints") if arguments[0].text != "clean" else write()
    if name in ("gzip", "gunzip", "bzip2", "xz", "zstd", "unxz", "bunzip2") and has_option(
        arguments, "-c", "-t", "-l", "--stdout", "--test", "--list", "--to-stdout"
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
    found += [reads_path(w, scene) for w in positionals(arguments) if reads_path(w, scene).secret]
    if name in table.CHECK_ONLY and not any(
        w.text in table.WRITE_OPTIONS or re.fullmatch(r"-[a-z]*[wi][a-z]*", w.text)
        for w in arguments
    ):
        return together(safe("prints"), *(reads_path(w, scene) for w in positionals(arguments)))
    return together(write("changes files of the project"), *found)


# ── the shell's own ──────────────────────────────────────────────────────────────────────────


def _cd(words: list[Word], scene: Scene) -> Finding:
    return safe("changes the folder")


def _set(words: list[Word], scene: Scene) -> Finding:
    if len(words) == 1:
        return system("shows every variable, secrets with them")
    return safe("sets options of the shell")


def _declares(words: list[Word], scene: Scene) -> Finding:
    if len(words) == 1 or any(re.fullmatch(r"-\w*p\w*", w.text) for w in words[1:]):
        if words[0].text in ("local", "readonly"):
            return safe("lists variables")
        return system("shows every variable, secrets with them")
    options = [w.text for w in words[1:] if re.fullmatch(r"[-+]\w+", w.text)]
    if words[0].text != "local" and len(options) == len(words) - 1 and "-n" not in options:
        return system("shows every variable, secrets with them")
    if any(re.search(r"\$\(|`", w.text) for w in words[1:]) or any(
        re.fullmatch(r"-\w*[in]\w*", w.text) for w in words[1:]
    ):
        return unknown("a variable whose value is evaluated")
    return safe("sets variables")


def _printenv(words: list[Word], scene: Scene) -> Finding:
    names = positionals(words[1:])
    plain = "PATH HOME USER LANG TERM SHELL PWD TZ LOGNAME EDITOR VIRTUAL_ENV CI TMPDIR".split()
    if names and all(w.text in plain for w in names):
        return safe("prints")
    return system("shows variables, secrets with them")


def _source(words: list[Word], scene: Scene) -> Finding:
    return sourced(words, scene)


def _history(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-c", "-d", "-w"):
        return destructive("deletes the shell's history")
    return system("shows commands of the past, secrets with them")


def _crontab(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-r"):
        return destructive("deletes all planned commands")
    return (
        safe("lists planned commands")
        if has_option(words[1:], "-l")
        else system("plants what runs later")
    )


def _alias(words: list[Word], scene: Scene) -> Finding:
    if len(words) == 1 or words[1:] == [Word("-p")]:
        return safe("lists aliases")
    return system("makes a name stand for another command")


def _curl(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    found = network("talks to another machine")
    if has_option(arguments, "--config", "-K", "--engine", "--use-askpass", "--post-file-x"):
        found = together(found, unknown("settings from elsewhere"))
    name = os.path.basename(words[0].text)
    outputs = option_values(
        arguments,
        (
            "--output",
            "--output-document",
            "--output-dir",
            "--cookie-jar",
            "--dump-header",
            "--directory-prefix",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--libcurl",
        ),
    )
    short = ("-o", "-c", "-D") if name == "curl" else ("-O", "-P", "-o", "-a")
    for index, word in enumerate(arguments):
        match = (
            re.fullmatch(r"-[a-zA-NP-Z]*?(" + "|".join(s[1] for s in short) + r")(.*)", word.text)
            if not word.text.startswith("--")
            else None
        )
        if match:
            following = arguments[index + 1] if index + 1 < len(arguments) else Word(".")
            outputs.append(Word(match[2]) if match[2] else following)
    found = together(found, *(writes_path(w, scene) for w in outputs if w.text != "-"))
    return together(found, *_leaks(words, scene))


def _rsync(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    if has_option(
        arguments,
        "--delete",
        "--delete-after",
        "--delete-before",
        "--delete-excluded",
        "--del",
        "--remove-source-files",
    ) or any(w.text.startswith("--del") for w in arguments):
        return destructive("deletes what the source does not have")
    given = positionals(
        arguments,
        ("-e", "--rsh", "--exclude", "--include", "--files-from", "-f", "--filter", "--rsync-path"),
    )
    secrets = _leaks(words, scene)
    if any(re.match(r"[\w.@-]+:", w.text) for w in given):
        found = network("copies to or from another machine")
        shell = option_values(arguments, ("--rsh", "-e"))
        parts = [p for w in shell for p in scene.run_text(w.text)]
        grave = [part for part in parts if part.klass not in ("safe", "network")]
        return together(with_more(found, grave), *secrets)
    found = together(
        write(),
        *(writes_path(w, scene) for w in given[-1:]),
        *(reads_path(w, scene) for w in given[:-1]),
        *secrets,
    )
    return found


def _nc(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-e", "-c", "--exec", "--sh-exec"):
        return destructive("gives another machine a shell")
    if has_option(words[1:], "-l", "--listen"):
        return unknown("waits for other machines")
    return together(network("talks to another machine"), *_leaks(words, scene))


def _kill(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-l", "-L"):
        return safe("lists signals")
    return system("ends processes")


def _less(words: list[Word], scene: Scene) -> Finding:
    read = [reads_path(w, scene) for w in positionals(words[1:])]
    return together(unknown("a pager, which can run programs"), *read)


def _let(words: list[Word], scene: Scene) -> Finding:
    if any(not re.fullmatch(r"[\w\s+*/%=<>&|()!-]*", w.text) for w in words[1:]):
        return unknown("text that is evaluated")
    return safe("calculates")


def _unset(words: list[Word], scene: Scene) -> Finding:
    return _let(words, scene)


def _read(words: list[Word], scene: Scene) -> Finding:
    return _let(
        [words[0], *positionals(words[1:], ("-p", "-d", "-n", "-t", "-u", "-i", "-a"))], scene
    )


def _init(words: list[Word], scene: Scene) -> Finding:
    if len(words) > 1 and words[1].text in ("0", "6"):
        return destructive("turns the machine off")
    return system("changes how the machine runs")


_SPECIAL: dict[str, Judge] = {
    "git": git,
    "command": command_builtin,
    "env": env,
    "xargs": xargs,
    "gxargs": xargs,
    "eval": evaluate,
    "trap": trap,
    "source": _source,
    ".": _source,
    "ssh": remote_shell,
    "su": su,
    "runuser": su,
    "flock": flock,
    "watch": watch,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "set": _set,
    "export": _declares,
    "declare": _declares,
    "typeset": _declares,
    "local": _declares,
    "readonly": _declares,
    "unset": _unset,
    "let": _let,
    "read": _read,
    "printenv": _printenv,
    "history": _history,
    "crontab": _crontab,
    "alias": _alias,
    "echo": _echo,
    "printf": _echo,
    "test": _test,
    "[": _test,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "rg": _rg,
    "tree": _tree,
    "file": _file,
    "sort": _sort,
    "gsort": _sort,
    "uniq": _uniq,
    "xxd": _xxd,
    "date": _date,
    "hostname": _hostname,
    "ps": _ps,
    "{": lambda words, scene: with_more(safe("a group"), scene.run_words(words[1:])),
    "tr": lambda words, scene: safe("prints"),
    "df": lambda words, scene: safe("prints"),
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "jq": _jq,
    "gojq": _jq,
    "yq": _jq,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "rm": _rm,
    "unlink": _rm,
    "cp": _two_places,
    "mv": _two_places,
    "ln": _two_places,
    "link": _two_places,
    "install": _two_places,
    "mkdir": _writes_all,
    "rmdir": _writes_all,
    "touch": _writes_all,
    "mkfifo": _writes_all,
    "mktemp": _writes_all,
    "patch": _writes_all,
    "tee": _tee,
    "split": _split,
    "truncate": _truncate,
    "dd": _dd,
    "chmod": _chmod,
    "chown": _chmod,
    "chgrp": _chmod,
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    "unzip": _unzip,
    "curl": _curl,
    "wget": _curl,
    "rsync": _rsync,
    "nc": _nc,
    "ncat": _nc,
    "netcat": _nc,
    "socat": _nc,
    "kill": _kill,
    "less": _less,
    "more": _less,
    "most": _less,
    "init": _init,
}
