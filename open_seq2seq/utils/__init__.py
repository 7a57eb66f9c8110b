"""Console output, errors and files: utilities that all other packages may use."""
