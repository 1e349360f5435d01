"""Extensions that others provide: MCP servers, skills, commands, hooks, agents; and a person's
trust in them."""
