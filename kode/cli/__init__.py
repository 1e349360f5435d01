"""The faces: parse, show, ask. Everything a person or a script sees is here, and nothing else.

Commands are explicit: `parser.COMMANDS` names the module of each. The terminal libraries (rich,
prompt_toolkit) are imported only in this package, inside the functions that draw.
"""
