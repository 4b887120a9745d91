"""Tools of a home: their declarations, and how their calls are named and judged where no home is connected."""
