"""The screen: events as text, Markdown, diffs, tables, questions. Knows no command, no prompt."""
