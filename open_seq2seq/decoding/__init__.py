"""Search and sampling of output sequences, CTC decoding, and n-gram language models."""
