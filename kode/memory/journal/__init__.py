"""The memory `journal`: conversations consolidated into long-term files. Start in `system.py`."""
