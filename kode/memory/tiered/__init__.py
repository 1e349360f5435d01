"""The memory `tiered`: facts, a buffer of recent turns, episodes. Start in `system.py`."""
