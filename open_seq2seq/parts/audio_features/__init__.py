"""Audio to features: what the back-ends share, and the one that runs in the TensorFlow graph."""
