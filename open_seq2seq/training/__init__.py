"""Training, evaluation and inference of a model.

* ``run``: one run of the command, with its log directory and inputs
* ``loop``: the training loop, its hooks, and passes over the data
* ``checkpoints``: writing, reading, averaging and choosing of checkpoints
* ``recovery``: detection of divergence and recovery from it, and saving after errors
* ``report``: the page that ``--mode=report`` writes about a run
* ``precision``: choice of the operations that are computed in bfloat16, and reports on half precision
* ``inference``: use of a trained model
"""
