"""What others bring: MCP servers, skills, commands, hooks, agents; whether a person trusts it."""
