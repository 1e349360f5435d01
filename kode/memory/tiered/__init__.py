"""The memory `tiered`: facts in the prompt, recent turns in the session, notes on sessions."""
