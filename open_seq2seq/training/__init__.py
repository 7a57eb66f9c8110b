"""Training, evaluation and inference of a model.

* ``run``: one run of the command, its log directory and its inputs
* ``loop``: the updates, the passes over data, and what happens between updates
* ``checkpoints``: what is saved and restored
* ``recovery``: what happens after divergence and errors
* ``precision``: the choice of the arithmetic, and reports on it
* ``inference``: a trained model found in a log directory and used
"""
