"""What commands that read would do: some of their options write or run. Writers are in
`shell_writers`."""

import re
from collections.abc import Sequence
from dataclasses import replace

from kode.permissions import shell_table as table
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
    sweeps_below,
    system,
    together,
    unknown,
    with_more,
    write,
    writes_path,
)
from kode.permissions.shell_scripts import awk_is_plain, jq_is_plain, sed_is_plain
from kode.permissions.shell_words import FOUND, UNKNOWN, Word

_LOADS_CODE = re.compile(
    r"--(?:\w+-)*(?:exec|execute|command|pager|plugins?|load|script|hook|viewer|editor|browser"
    r"|engine|filters?|ruleset|interpreter|library-path|require|rcfile|rc|init-file|startup"
    r"|extension|catalogs?|config-file)(?:-(?:dir|path|file|program|cmd|settings))?(?:=.*)?"
)
_WRITES = re.compile(
    r"--(?:in-?place|write|save|out-?file|output|(?:report|log|output)-?file)(?:=.*)?"
)


def loads_code(words: list[Word]) -> bool:
    """Whether a long option names code to run, whatever the program."""
    return any(_LOADS_CODE.fullmatch(w.text) for w in words[1:])


def _does_more(words: list[Word], name: str) -> bool:
    """Whether options make more of a program that is known to read and print."""
    dangers = table.READER_DANGERS.get(name, "").split()
    if dangers and has_option(words[1:], *dangers):
        return True
    return loads_code(words) or any(_WRITES.fullmatch(w.text) for w in words[1:])


def printer(name: str, words: list[Word], scene: Scene) -> Finding:
    if _does_more(words, name):
        return unknown("an option that makes it run, write or read something else")
    if name == "shopt" and any(
        w.text not in table.PLAIN_SHOPT for w in words[1:] if not w.text.startswith("-")
    ):
        return unknown("changes how the shell reads commands")
    if name in ("umask", "ulimit") and any(re.search(r"\d|unlimited|=", w.text) for w in words[1:]):
        return unknown("changes limits of the shell")
    return safe("prints")


def reader(name: str, words: list[Word], scene: Scene, *, names_only: bool) -> Finding:
    arguments = words[1:]
    if _does_more(words, name):
        return unknown("an option that makes it run, write or read something else")
    if any(re.match(r"\w+://", w.text) for w in arguments):
        return network("asks another machine")
    takes_value = table.READER_VALUE_OPTIONS.get(name, "").split()
    if name in table.READER_PATTERN_FIRST:
        return _pattern_reader(arguments, scene, takes_value)
    found = [
        reads_path(word, scene, names_only=names_only)
        for word in positionals(arguments, takes_value)
    ]
    found += option_files(arguments, scene)
    if name in ("diff", "colordiff") and has_option(arguments, "-r", "--recursive"):
        given = [Word(path) for one in found for path in one.reads if FOUND not in path]
        found.append(sweeps_below(given, scene))
    return together(safe("prints"), *found)


def option_files(words: list[Word], scene: Scene) -> list[Finding]:
    """Secrets and unknown pieces in options."""
    found = []
    for word in words:
        if not word.text.startswith("-") or word.text.startswith("--exclude"):
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
    listed = option_values(arguments, ("--glob", "--iglob", "--include", "-g"))
    found += [reads_path(w, scene) for w in listed if not w.text.startswith("!")]
    return together(safe("searches"), *found, *option_files(arguments, scene))


def _searched_folders(finding: Finding) -> list[Word]:
    """What a search was given to read; the current folder when that is nothing."""
    return [Word(path) for path in finding.reads if FOUND not in path]


def _sweeping(finding: Finding, arguments: list[Word], scene: Scene, *, kind: str) -> Finding:
    """What a search below folders reads: `grep` all, `rg` what is neither hidden nor ignored."""
    named = [
        w.text
        for w in option_values(arguments, ("--include", "--glob", "--iglob"))
        + (option_values(arguments, ("-g",)) if kind != "grep" else [])
    ]
    left_out = [w.text for w in option_values(arguments, ("--exclude", "--exclude-dir"))]
    if any("/" in name for name in named):
        named = []
    everything = has_option(arguments, "--unrestricted", "-u", "--no-ignore") and kind != "grep"
    twice = any(re.fullmatch(r"-\w*u\w*u\w*", w.text) for w in arguments) or (
        sum(w.text in ("-u", "--unrestricted") for w in arguments) > 1
    )
    hidden = kind == "grep" or twice or has_option(arguments, "--hidden", "-.")
    return together(
        finding,
        sweeps_below(
            _searched_folders(finding),
            scene,
            names=[name for name in named if not name.startswith("!")] or [""],
            hidden=hidden,
            ignored=kind == "grep" or everything,
            without=[*left_out, *(name[1:] for name in named if name.startswith("!"))],
        ),
    )


def grep(words: list[Word], scene: Scene) -> Finding:
    found = _grep(words, scene)
    deep = any(
        re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|--dereference-recursive", w.text)
        or w.text in ("--directories=recurse", "-drecurse")
        for w in words[1:]
    )
    fed = scene.feed is not None and not found.reads
    return _sweeping(found, words[1:], scene, kind="grep") if deep and not fed else found


def searcher(words: list[Word], scene: Scene) -> Finding:
    """ag, ack: like grep -r, unless they are fed."""
    name = words[0].text.rsplit("/", 1)[-1]
    found = reader(name, words, scene, names_only=False)
    if scene.feed is not None and not found.reads:
        return found
    return _sweeping(found, words[1:], scene, kind="rg" if name == "ag" else "grep")


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


def rg(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "--pre", "--pre-glob", "--hostname-bin", "--search-zip", "-z"):
        return unknown("runs a program for each file")
    if has_option(words[1:], "--files", "--type-list", "--version", "--help"):
        given = positionals(words[1:], ("-g", "--glob", "-t", "--type", "--iglob", "-T"))
        return together(
            safe("lists files"), *(reads_path(w, scene, names_only=True) for w in given)
        )
    found = _pattern_reader(words[1:], scene, [])
    if scene.feed is not None and not found.reads:
        return found
    return _sweeping(found, words[1:], scene, kind="rg")


def tree(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-o", "--output", "--fromfile", "-R"):
        return unknown("writes its output somewhere")
    given = positionals(words[1:], ("-L", "-I", "-P", "-H", "-T", "--filelimit", "--charset"))
    return together(safe("lists"), *(reads_path(w, scene, names_only=True) for w in given))


def file_kinds(words: list[Word], scene: Scene) -> Finding:
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


def sort(words: list[Word], scene: Scene) -> Finding:
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
    return together(safe("sorts"), *found, *option_files(arguments, scene))


def uniq(words: list[Word], scene: Scene) -> Finding:
    given = positionals(words[1:], ("-f", "-s", "-w"))
    found = [reads_path(w, scene) for w in given[:1]]
    found += [writes_path(w, scene, replaces=True) for w in given[1:]]
    return together(safe("drops repeated lines"), *found)


def xxd(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-r", "-revert"):
        return unknown("writes a file from its dump")
    given = positionals(words[1:], ("-l", "-s", "-c", "-g", "-o", "-len", "-seek", "-cols"))
    found = [reads_path(w, scene) for w in given[:1]]
    found += [writes_path(w, scene, replaces=True) for w in given[1:]]
    return together(safe("dumps"), *found)


def date(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-s", "--set"):
        return system("sets the clock")
    given = positionals(words[1:], ("-d", "--date", "-r", "-f", "-v", "-j", "--reference"))
    if any(not w.text.startswith("+") for w in given) and not has_option(words[1:], "-j"):
        return system("sets the clock") if any(w.known for w in given) else unknown("sets a date")
    return safe("prints")


def hostname(words: list[Word], scene: Scene) -> Finding:
    if positionals(words[1:]) or has_option(words[1:], "-F", "--file", "-b"):
        return system("sets the machine's name")
    return safe("prints")


def ps(words: list[Word], scene: Scene) -> Finding:
    if any(re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", w.text) for w in words[1:2]) or has_option(
        words[1:], "-E"
    ):
        return system("shows the variables of processes")
    return safe("lists processes")


def echo(words: list[Word], scene: Scene) -> Finding:
    if any(re.search(r"\[.*(\$\(|`)", w.text) for w in words[1:3]) and words[0].text == "printf":
        return unknown("text that may be evaluated")
    return safe("prints")


def test(words: list[Word], scene: Scene) -> Finding:
    if any(re.search(r"\$\(|`|\[", w.text) for w in words[1:]):
        return unknown("text that may be evaluated")
    return safe("a test")


def sed(words: list[Word], scene: Scene) -> Finding:
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


def awk(words: list[Word], scene: Scene) -> Finding:
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


def jq(words: list[Word], scene: Scene) -> Finding:
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


def find(words: list[Word], scene: Scene) -> Finding:
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
    outside = any(not w.known or w.text.startswith(("/", "~", "..")) for w in starts)
    if outside and any(reads_path(Word("/x/" + w.text), scene).secret for w in rest):
        found = together(found, unknown("looks for files that hold keys"))
    folder = starts[0].text if starts else "."
    return together(found, *_find_actions(rest, starts or [Word(".")], folder, scene))


def _known(starts: list[Word], scene: Scene) -> tuple[str, ...]:
    """Where a search begins, as far as that is known."""
    paths = [absolute(start, scene) for start in starts]
    return tuple(p for p in paths if p and UNKNOWN not in p) or (scene.cwd or scene.where.cwd,)


def _find_actions(rest: list[Word], starts: list[Word], folder: str, scene: Scene) -> list[Finding]:
    found: list[Finding] = []
    names = found_names(rest)
    index = 0
    while index < len(rest):
        text = rest[index].text
        if not rest[index].known and not text.startswith("-"):
            found.append(unknown("conditions that are not known beforehand"))
        if text == "-delete":
            safe_places = all(
                deletes_path(Word(f"{start.text}/{FOUND}{name}", start.glob), scene).klass
                == "write"
                for start in starts
                for name in names
            )
            found.append(
                write("deletes what a build makes again")
                if safe_places
                else replace(destructive("deletes files"), discards=_known(starts, scene))
            )
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf") and index + 1 < len(rest):
            found.append(writes_path(rest[index + 1], scene, replaces=True))
        elif text == "-files0-from":
            found.append(unknown("starts from files that are not named"))
        elif text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = index + 1
            while end < len(rest) and rest[end].text not in (";", "+"):
                end += 1
            command = _with_found(rest[index + 1 : end], folder, names)
            if command:
                found.append(
                    with_more(safe("runs a command for each file"), scene.run_words(command))
                )
            index = end
        index += 1
    return found


def _with_found(command: list[Word], folder: str, names: list[str]) -> list[Word]:
    """The words of a command that is run for each file, `{}` replaced by what was found."""
    out: list[Word] = []
    for word in command:
        if word.text == "{}":
            out += [Word(f"{folder}/{FOUND}{name}") for name in names]
        else:
            out.append(Word(word.text.replace("{}", f"{folder}/{FOUND}"), word.glob))
    return out


def found_names(conditions: Sequence[Word]) -> list[str]:
    """Globs for the names that `find` can come upon with some conditions; `""` for any name."""
    texts = [word.text for word in conditions]
    named = [
        texts[i + 1]
        for i, text in enumerate(texts[:-1])
        if text in ("-name", "-iname") and "/" not in texts[i + 1]
    ]
    if any(text in ("!", "-not", ",") for text in texts) or UNKNOWN in "".join(texts):
        return [""]
    if any(text in ("-o", "-or") for text in texts):
        grouped = texts.count("(") == 1 and texts.count(")") == 1
        inner = texts[texts.index("(") + 1 : texts.index(")")] if grouped else []
        every = {"-name", "-iname", "-o", "-or", *named}
        alone = grouped and set(inner) <= every and not {"-o", "-or"} & set(_outside(texts))
        return named if alone and named else [""]
    return named[:1] or [""]


def _outside(texts: list[str]) -> list[str]:
    return texts[: texts.index("(")] + texts[texts.index(")") :]


def fd(words: list[Word], scene: Scene) -> Finding:
    for index, word in enumerate(words):
        if word.text in ("-x", "-X", "--exec", "--exec-batch"):
            name = _fd_name(words[1:index])
            command = [Word(w.text.replace("{}", f"./{FOUND}{name}")) for w in words[index + 1 :]]
            if not any(FOUND in w.text for w in command):
                command.append(Word(f"./{FOUND}{name}"))
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


def _fd_name(options: list[Word]) -> str:
    """A glob for the names that `fd` comes upon; "" for any."""
    endings = option_values(options, ("--extension", "-e"))
    if len(endings) == 1:
        return f"*.{endings[0].text.lstrip('.')}"
    given = positionals(options, ("-e", "-t", "-d", "-E", "-g", "--type", "--extension"))
    plain = given[0].text.replace("\\.", ".").strip("^$") if given else ""
    return plain if re.fullmatch(r"[\w.-]*", plain) and plain.startswith(".") else ""


def less(words: list[Word], scene: Scene) -> Finding:
    read = [reads_path(w, scene) for w in positionals(words[1:])]
    return together(unknown("a pager, which can run programs"), *read)
