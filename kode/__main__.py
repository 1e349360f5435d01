"""The `kode` command. `--version` is answered here, before anything else is imported."""

import sys


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        return _show_version()
    import gc

    # Thousands of objects come with the imports, and all of them stay: looking through them again
    # and again is a tenth of start-up. `cli.flags.started` turns collection on.
    gc.disable()
    from kode.cli.main import main as run

    return run(sys.argv[1:])


def _show_version() -> int:
    from kode import __version__

    try:
        sys.stdout.write(f"kode {__version__}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # a full disk, a reader that left, a closed stream
        sys.stdout = None  # what is left in it must not be tried again
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
