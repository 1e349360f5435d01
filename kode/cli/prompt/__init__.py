"""The prompt: lines and keys, completion, running and queued work, slash commands."""
