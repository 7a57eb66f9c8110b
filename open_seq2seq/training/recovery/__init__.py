"""Detection and diagnosis of divergence, recovery from it, and saving when an error ends a run."""
