"""Changes that a work makes besides its entries: check and write of each kind, by subject."""
