"""Hands: providers of tools, each with a life cycle."""
