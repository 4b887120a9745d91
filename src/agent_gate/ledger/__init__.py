"""Memory: the append-only, hash-chained ledger."""
