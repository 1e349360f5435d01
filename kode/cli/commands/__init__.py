"""The commands of the shell: one module a command, each with `main(argv) -> int`."""
