"""Frees the memory of traced functions, which TensorFlow would keep until the process ends."""

from __future__ import annotations

import contextlib
from typing import Any


def release_graphs(function: Any) -> None:
    """Frees the graphs that a ``tf.function`` has traced; it must not be called or differentiated afterwards.

    TensorFlow 2.21 keeps the graphs of a ``tf.function`` for two reasons. They contain reference cycles through C++
    objects, which Python's garbage collector does not see. And the gradient function of each ``tf.custom_gradient``,
    which refers to tensors of the graph, is entered in a global table under a name of its own. TensorFlow offers no
    public way to break the cycles and to remove the entries. With another version that lacks these private parts, the
    memory remains in use.
    """
    with contextlib.suppress(Exception):
        from tensorflow.python.framework import func_graph, ops

        table = ops.gradient_registry._registry
        # The function's methods may trace it. The garbage collector calls this at any time, also while another function
        # is traced, which would then seem to use these variables.
        for concrete in function._function_cache.values():
            definition = concrete.graph.as_graph_def()
            inner = (node for one in definition.library.function for node in one.node_def)
            for node in (*definition.node, *inner):
                if "_gradient_op_type" in node.attr:
                    table.pop(node.attr["_gradient_op_type"].s.decode(), None)
            func_graph.dismantle_func_graph(concrete.graph)
