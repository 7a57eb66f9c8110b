"""The training loop: updates, hooks, passes over the data, summaries and samples."""
