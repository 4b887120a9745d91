"""The machine: its clock, chance, files, and places that agents share."""
