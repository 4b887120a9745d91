"""Home Assistant: a connection to a home, what is known of it, and the tools that read and change it."""
