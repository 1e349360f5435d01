"""MCP servers as configured, for plug-ins: their entries, and where they are added."""

from kode.extensions.mcp_config import *  # noqa: F403
