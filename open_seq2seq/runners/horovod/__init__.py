"""Processes joined by Horovod, with a fixed or an elastic number of processes."""
