"""Resolution of files, names and programs: found once in the world and held until they are used."""
