"""Hides from the processes that the tests start what a user's environment lacks; Python imports it by its name.

librosa, a requirement of the tests alone, brings scikit-learn, and Keras imports that and matplotlib wherever it finds
them, before anybody asked: 3 of the 8 seconds that every import of TensorFlow takes then.
"""

import sys

plots = any(argument.startswith("--png") for argument in sys.orig_argv)
for module in ("sklearn",) if plots else ("sklearn", "matplotlib"):
    sys.modules.setdefault(module, None)  # type: ignore[arg-type]
