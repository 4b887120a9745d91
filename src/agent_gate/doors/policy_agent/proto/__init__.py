"""The messages that travel, and the Python that protoc makes of them (`make proto`)."""
