"""The report of a run: one HTML page with curves, samples, settings and the worst examples of the evaluation."""
