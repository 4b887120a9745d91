"""Bad input as data: each case says what is sent in and that nothing may come of it, or that it must pass."""
