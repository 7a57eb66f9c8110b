"""Audio data: recordings, and the features computed from them."""
