"""Runs a command as the command line does, but lets its errors through."""

from kode.cli.screen.printer import print_answer


def run(command, argv):
    """Prints what the module of a command answers; returns the exit code."""
    return print_answer(command.main(argv))
