"""What commands that talk to other machines would do here. Clouds are in `services`."""

import os
import re

from kode.permissions.shell.judge import (
    Finding,
    Scene,
    deletes_remotely,
    destructive,
    network,
    system,
    together,
    unknown,
    with_more,
    write,
)
from kode.permissions.shell.options import has_option, option_values, positionals
from kode.permissions.shell.paths import reads_path, secrets_named, writes_path
from kode.permissions.shell.words import Word
from kode.permissions.shell.writers import merge_finding


def curl(words: list[Word], scene: Scene) -> Finding:
    arguments = words[1:]
    found = network("talks to another machine")
    line = " ".join(w.text for w in arguments)
    if re.search(r"169\.254\.169\.254|metadata\.google|100\.100\.100\.200", line):
        return system("asks the cloud for this machine's keys")
    if re.search(r"(?:-X ?|--request[= ]|--method[= ])DELETE\b", line):
        return deletes_remotely("deletes what is on the server")
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
    return together(found, *secrets_named(words, scene))


def rsync(words: list[Word], scene: Scene) -> Finding:
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
    if has_option(arguments, "--daemon"):
        return unknown("waits for other machines")
    secrets = secrets_named(words, scene)
    secrets += [
        writes_path(w, scene)
        for w in option_values(
            arguments,
            (
                "--backup-dir",
                "--log-file",
                "--partial-dir",
                "--temp-dir",
                "--write-batch",
                "--only-write-batch",
            ),
        )
    ]
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
        *(merge_finding(w, given[-1], scene) for w in given[:-1]),
        *secrets,
    )
    return found


def nc(words: list[Word], scene: Scene) -> Finding:
    if has_option(words[1:], "-e", "-c", "--exec", "--sh-exec"):
        return destructive("gives another machine a shell")
    if any(re.search(r"(?:^|,)(?:exec|system|shell):", w.text, re.IGNORECASE) for w in words[1:]):
        return destructive("gives another machine a program")
    if has_option(words[1:], "-l", "--listen"):
        return unknown("waits for other machines")
    return together(network("talks to another machine"), *secrets_named(words, scene))
