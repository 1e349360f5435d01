"""The prompt: lines and keys, completion, what runs and what waits, and slash commands."""
