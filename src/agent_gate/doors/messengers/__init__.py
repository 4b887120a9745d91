"""Messengers: one board, one seal and one way in for answers, however people are asked."""
