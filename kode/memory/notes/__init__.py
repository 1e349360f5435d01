"""The memory `notes`: notes in a database, rules and a soul. Start in `system.py`."""
