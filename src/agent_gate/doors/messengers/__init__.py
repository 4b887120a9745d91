"""Messengers: where people are asked besides console and terminal. One board, one seal and one way in for answers."""
