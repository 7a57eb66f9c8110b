"""A trained model, found in a log directory and used."""
