"""The memory `journal`: MEMORY.md in the prompt, and a history that is searched on demand."""
