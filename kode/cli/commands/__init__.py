"""The shell commands: one module per command, each with `main(argv) -> int`."""
