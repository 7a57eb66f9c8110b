"""The training loop: updates, passes over data, summaries and samples."""
