"""The notes system: short notes of four kinds, with lifetimes, tags and sensitivity."""
