"""What binding finds in the world: files, names and programs, resolved once and held until they are used."""
