"""Afterwards: questions asked of the ledger."""
