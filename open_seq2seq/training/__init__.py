"""Training, evaluation and inference of a model.

* ``run``: one run of the command, with its log directory and inputs
* ``loop``: the training loop, its hooks, and passes over the data
* ``checkpoints``: saving and restoring
* ``recovery``: recovery from divergence, and saving after errors
* ``report``: the page that ``--mode=report`` writes about a run
* ``precision``: choice of the arithmetic precision, and reports on it
* ``inference``: use of a trained model from a log directory
"""
