"""Sessions on disk: their lines, the index, what undo keeps, and repair. Start in `log.py`."""
