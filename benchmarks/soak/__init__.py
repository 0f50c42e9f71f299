"""A soak: the same study extracted again and again, while everything that belongs to a run is killed at random."""
