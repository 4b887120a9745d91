"""Everything that drives a call, and what people and plans do with it."""
