"""Detection and diagnosis of divergence, recovery from it, and saving after errors."""
