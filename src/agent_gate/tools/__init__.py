"""Declarations of the tools that come with the gate: pure, so that their calls can be judged without their services."""
