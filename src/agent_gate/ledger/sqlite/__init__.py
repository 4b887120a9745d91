"""The ledger in one SQLite file: everything of it that knows SQL."""
