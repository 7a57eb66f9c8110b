"""The training loop, evaluation, inference, checkpoints, and what is printed."""
