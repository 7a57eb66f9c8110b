"""Audio as data: recordings, and the features that are computed from them."""
