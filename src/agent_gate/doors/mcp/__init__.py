"""MCP: the tools of a gate for clients that speak the Model Context Protocol."""
