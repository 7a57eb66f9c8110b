"""Console output and errors: what every other room may use."""
