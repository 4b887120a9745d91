"""The wall around a command: what it can see, what it may ask of the kernel, and how long and large it may grow."""
