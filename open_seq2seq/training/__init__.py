"""Training of a model.

* ``loop``: the training step, the trainer, hooks, detection of divergence, and passes over the data
* ``precision``: reports on half precision
* ``recovery``: recovery from divergence, and saving after errors
* ``train``: all of them, from the first update to the last
"""
