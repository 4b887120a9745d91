"""Ears and mouth: where calls and answers come in."""
