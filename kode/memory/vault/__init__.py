"""The memory `vault`: Markdown files that the model reads and writes with five tools."""
