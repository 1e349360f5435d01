"""The memory `journal`: what was said, consolidated into long-term files. Start in `system.py`."""
