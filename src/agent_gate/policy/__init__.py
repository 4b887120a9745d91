"""Judgement: pure functions from a bound call and a policy to a verdict."""
