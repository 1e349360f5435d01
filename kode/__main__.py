"""The `kode` command. `--version` is answered here, before anything else is imported."""

import sys


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from kode import __version__

        sys.stdout.write(f"kode {__version__}\n")
        return 0
    import gc

    # Thousands of objects come with the imports, and all of them stay: looking through them again
    # and again is a tenth of start-up. `cli.flags.started` turns collection on.
    gc.disable()
    from kode.cli.main import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
