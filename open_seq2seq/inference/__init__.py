"""Use of a trained model from a log directory."""
