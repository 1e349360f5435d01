"""The memory `vault`: Markdown files that the model reads and writes. Start in `system.py`."""
