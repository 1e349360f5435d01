"""The command line: parses, shows, asks. Everything a person or a script sees is here, and nothing
else.

`parser.COMMANDS` names the module of each command. The terminal libraries (rich, prompt_toolkit)
are imported only in this package, inside the functions that draw.
"""
