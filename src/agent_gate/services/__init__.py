"""Services: what acts, each a provider of tools with a life cycle; their declarations are in `tools/`."""
