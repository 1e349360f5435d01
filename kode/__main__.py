"""The `kode` command. Answers `--version` before importing anything else."""

import sys


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        return _show_version()
    if sys.platform == "win32":  # much of what is imported below does not exist there
        print("kode needs Linux or macOS: on Windows, run it inside WSL.", file=sys.stderr)
        return 3  # `errors.EXIT_NOT_STARTED`
    import gc

    # The imports create thousands of objects that all stay alive; collecting over them takes a
    # tenth of start-up. `cli.flags.finish_startup` turns collection back on.
    gc.disable()
    from kode.cli.main import main as run

    code = run(sys.argv[1:])
    gc.freeze()  # else Python looks through everything once more at its end, for 0.06 s and more
    return code


def _show_version() -> int:
    from kode import __version__

    try:
        print(f"kode {__version__}", flush=True)
    except OSError:  # a full disk, a reader that went away
        sys.stdout = None  # so that the interpreter does not flush it again at exit
        return 1
    return 0 if sys.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
