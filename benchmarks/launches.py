"""Counts the operations that an update launches, by part of the update, for each dtype, as a Markdown table.

    python benchmarks/launches.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-TT.py \
        --dtypes float32,mixed_float16

The operations are those of the training step's graph after TensorFlow's optimisation of it, and of the functions that
it calls: the body of a loop and each branch of a condition count once. Operations that compute nothing, such as
constants, reads of variables, reshapes and control flow, are left out, and so is the arithmetic of shapes, in int32.
The number does not depend on the processor's speed; on a GPU each of these operations is one launch or several.
Unknown options override the config.

With ``--search``, the operations of a step of the search are counted instead, by kind; the config then needs
``infer_params`` and a model that decodes step by step.
"""

from __future__ import annotations

import collections
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.processes import call
from benchmarks.measuring.programs import describe_machine, make_parser, markdown_table, run_program
from benchmarks.measuring.settings import default_names, dtype_overrides, make_trainer, prepare, sample_batches

_NOTHING = frozenset((
    "Const", "HostConst", "Shape", "ShapeN", "Size", "Rank", "ReadVariableOp", "VarHandleOp", "Reshape", "ExpandDims",
    "Squeeze", "Identity", "IdentityN", "NoOp", "Placeholder", "_Arg", "_Retval", "_DeviceArg", "_DeviceRetval",
    "StopGradient", "PartitionedCall", "StatefulPartitionedCall", "BroadcastGradientArgs", "Switch", "Merge", "Enter",
    "Exit", "NextIteration", "LoopCond", "While", "StatelessWhile", "If", "StatelessIf"))
_INT32 = 3  # in TensorFlow's enumeration of dtypes
PARTS = ("forward", "backward", "random numbers", "casts", "optimizer")
# Regular expressions of types by kind; the first that fits decides.
KINDS_OF_STEP = {
    "products": r"MatMul|Conv|Einsum",
    "choice of ids": r"TopK|Softmax|ArgMax",
    "moved data": r"Gather|Concat|Transpose|Slice|Pad|Unpack|Pack|Split|Tile|Broadcast|Scatter",
    "element by element, sums": "",
}
_SEARCH = re.compile(rb"(^|/)search(_\d+)?$")  # the name of the loop in decoding.beam_search


def part_of(name: str, kind: str, is_backward: bool) -> str:
    """Returns the part of the update that an operation belongs to, by its name in the graph and its type."""
    if "optimizer/" in name:
        return "optimizer"
    if kind == "Cast":
        return "casts"
    if kind.startswith(("StatelessRandom", "Bitcast")):
        return "random numbers"
    return "backward" if is_backward else "forward"


def backward_nodes(graph: Any) -> set[str]:
    """Returns the names of a graph's nodes that TensorFlow's gradients made, and of all that depend on them.

    The toolkit's own gradients do not have TensorFlow's names, so only their dependence identifies them.
    """
    backward = {node.name for node in graph.node if "gradient_tape" in node.name and node.op not in _NOTHING}
    readers = collections.defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name.lstrip("^").partition(":")[0]].append(node.name)
    pending = list(backward)
    while pending:
        more = set(readers[pending.pop()]) - backward
        backward |= more
        pending += more
    return backward


def nodes_of(graph: Any) -> Iterator[Any]:
    """Yields the nodes of a ``GraphDef`` and of the functions that it calls, those of each function once."""
    functions = {function.signature.name: function for function in graph.library.function}
    pending, seen = [graph.node], set()
    while pending:
        for node in pending.pop():
            yield node
            for attribute in node.attr.values():
                for name in (attribute.func.name, *(function.name for function in attribute.list.func)):
                    if name in functions and name not in seen:
                        seen.add(name)
                        pending.append(functions[name].node_def)


def count(graph: Any) -> dict[str, int]:
    """Returns the number of operations of a step's ``GraphDef`` by part."""
    backward = backward_nodes(graph)
    counted = collections.Counter(
        part_of(node.name, node.op, node.name in backward or "gradient" in node.name) for node in nodes_of(graph)
        if node.op not in _NOTHING and node.attr["T"].type != _INT32)
    return {part: counted[part] for part in PARTS}


def step_graph(config_file: str, overrides: Sequence[str]) -> Any:
    """Makes one update of a config, and returns the ``GraphDef`` of its step after optimisation."""
    from tensorflow.python.eager import context

    trainer = make_trainer(config_file, overrides)
    (batch,) = sample_batches(trainer.model.data_layer, 1)
    context.context().enable_graph_collection()
    trainer.try_batch(batch)
    graphs = [one.post_optimization_graph for one in context.context().export_run_metadata().function_graphs]
    return max(graphs, key=lambda graph: graph.ByteSize())


def count_step(graph: Any) -> dict[str, int]:
    """Returns the number of operations of a step of the search in an inference pass's ``GraphDef``, by kind.

    These are the operations between the entries of the search's loop and its exits.
    """
    nodes = {node.name: node for node in graph.node}
    readers = collections.defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name.lstrip("^").partition(":")[0]].append(node.name)
    pending = [name for name, node in nodes.items() if node.op == "Enter" and _SEARCH.search(node.attr["frame_name"].s)]
    inside = set(pending)
    while pending:
        name = pending.pop()
        more = set() if nodes[name].op == "Exit" else set(readers[name]) - inside
        inside |= more
        pending += more
    counted = collections.Counter(
        next(kind for kind, pattern in KINDS_OF_STEP.items() if re.search(pattern, nodes[name].op)) for name in inside
        if nodes[name].op not in _NOTHING and nodes[name].attr["T"].type != _INT32)
    return {kind: counted[kind] for kind in KINDS_OF_STEP}


def search_graph(config_file: str, overrides: Sequence[str]) -> Any:
    """Decodes a batch with a config's untrained model, and returns the ``GraphDef`` of the pass after optimisation."""
    from tensorflow.python.eager import context

    from open_seq2seq.models.builder import build_model
    from open_seq2seq.training.loop.passes import InferencePass

    specs, runner = prepare(config_file, "infer", overrides, {})
    model = build_model(next(iter(specs.values())))
    (examples,) = sample_batches(model.data_layer, 1)
    context.context().enable_graph_collection()
    next(InferencePass(model, runner).predict_each([model.data_layer.make_batch(examples)]))
    graphs = [one.post_optimization_graph for one in context.context().export_run_metadata().function_graphs]
    return max(graphs, key=lambda graph: graph.ByteSize())


def launches_of_step(config_file: str, overrides: Sequence[str]) -> dict[str, int]:
    """Returns the number of operations of a step of the search by kind; see ``launches``."""
    return count_step(search_graph(config_file, overrides))


def launches(config_file: str, overrides: Sequence[str]) -> dict[str, int]:
    """Returns the number of operations of an update by part.

    Args:
      config_file: path of a config with a training section.
      overrides: config values as on the command line.

    Raises:
      UserError: the config has a mistake.
    """
    return count(step_graph(config_file, overrides))


def main(argv: list[str]) -> None:
    """Counts and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--config_file", required=True, help="a config")
    parser.add_argument("--dtypes", help="comma-separated dtypes")
    parser.add_argument("--search", action="store_true", help="count the operations of a step of the search")
    options, overrides = parser.parse_known_args(argv)
    machine, gpus = describe_machine()
    names = options.dtypes.split(",") if options.dtypes else default_names(gpus > 0)
    counter, of, parts = (launches_of_step, "a step of the search", KINDS_OF_STEP) if options.search else (
        launches, "an update", PARTS)
    counts = [call(counter, options.config_file, [*overrides, *dtype_overrides(name, gpus > 0)]) for name in names]
    rows = [[part, *(f"{counted[part]:,}" for counted in counts)] for part in parts]
    print(f"* `{options.config_file}{''.join(' ' + override for override in overrides)}`\n* {machine}\n\n"
          + markdown_table([f"operations of {of}", *names],
                           [*rows, ["all", *(f"{sum(counted.values()):,}" for counted in counts)]]))


if __name__ == "__main__":
    run_program(main)
