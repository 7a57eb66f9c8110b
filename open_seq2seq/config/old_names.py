"""Names in configs of NVIDIA's OpenSeq2Seq that no longer exist, and the names that replace them.

Such a config mentions classes and functions of TensorFlow 1, as in ``"regularizer": tf.contrib.layers.l2_regularizer``,
but never calls them. In the syntax tree of the config, each is replaced by the string that a YAML config gives, here
``"l2_regularizer"``, before the config is executed. A config without such names is executed as it is, and nothing else
in the package knows of TensorFlow 1.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from open_seq2seq.utils.errors import ConfigError, did_you_mean

# Names of TensorFlow 1, by the module that contains them: name → name in a YAML config. "=" stands for the same name,
# with its module.
_MODULES: dict[str, dict[str, str]] = {
    "tf": {
        "glorot_normal_initializer": "GlorotNormal", "glorot_uniform_initializer": "GlorotUniform",
        "orthogonal_initializer": "Orthogonal",
        "truncated_normal_initializer": "tf.compat.v1.truncated_normal_initializer",
        "uniform_unit_scaling_initializer": "tf.compat.v1.uniform_unit_scaling_initializer",
        "variance_scaling_initializer": "VarianceScaling"},
    "tf.contrib.cudnn_rnn": {name: "=" for name in ("CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU",
                                                    "CudnnLSTM")},
    "tf.contrib.layers": {name: name for name in ("l1_regularizer", "l2_regularizer", "variance_scaling_initializer",
                                                  "xavier_initializer", "xavier_initializer_conv2d")},
    "tf.contrib.opt": {"LazyAdamOptimizer": "LazyAdam", "NadamOptimizer": "Nadam"},
    "tf.contrib.rnn": {name: "=" for name in ("BasicLSTMCell", "GLSTMCell", "GRUCell", "LayerNormBasicLSTMCell",
                                              "LSTMCell")},
    "tf.layers": {name: name for name in ("average_pooling2d", "batch_normalization", "conv2d", "dense", "dropout",
                                          "max_pooling2d")},
    "tf.nn.rnn_cell": {name: "=" for name in ("BasicLSTMCell", "GRUCell", "LSTMCell")},
    "tf.train": {
        "AdagradOptimizer": "Adagrad", "AdamOptimizer": "Adam", "FtrlOptimizer": "Ftrl",
        "GradientDescentOptimizer": "SGD", "MomentumOptimizer": "Momentum", "RMSPropOptimizer": "RMSProp",
        "cosine_decay": "cosine_decay"},
}
NAMES: dict[str, str] = {f"{module}.{old}": f"{module}.{old}" if new == "=" else new
                         for module, names in _MODULES.items() for old, new in names.items()}
"""Name of TensorFlow 1 → name in a YAML config."""

# Modules of TensorFlow 1 of which nothing but ``NAMES`` can be used.
_GONE = ("tf.contrib.", "tf.layers.", "tf.nn.rnn_cell.")
# Names that still exist, with another meaning.
_REFUSED = {"tf.nn.dropout": "means the opposite today, because its argument was the share that is kept: give "
                             '"dropout" with {"rate": …}.'}
_COMPONENTS = "docs/components.md shows how to write a component with TensorFlow 2."
# Parts of names whose arguments a config gives in a parameter of its own.
_ARGUMENTS = {"regularizer": "regularizer_params", "initializer": "initializer_params",
              "Optimizer": "optimizer_params", "decay": "lr_policy_params", "Cell": "core_cell_params"}

IMPORTS: dict[str, tuple[str, str]] = {
    "open_seq2seq.encoders.Wave2LetterEncoder": ("open_seq2seq.encoders", "TDNNEncoder"),
    "open_seq2seq.encoders.w2l_encoder.Wave2LetterEncoder": ("open_seq2seq.encoders", "TDNNEncoder"),
    "open_seq2seq.data.text2text.tokenizer.EOS_ID": ("open_seq2seq.data.text2text.tokenizer", "EOS_ID"),
    "open_seq2seq.parts.rnns.weight_drop.WeightDropLayerNormBasicLSTMCell":
        ("open_seq2seq.parts.rnn.core_cells", "WeightDropLayerNormBasicLSTMCell"),
    "open_seq2seq.models.Text2Speech": ("open_seq2seq.models", "Text2SpeechTacotron"),
}
"""Name that only configs of the original import → its module and name today."""

USED = "_open_seq2seq_old_names"
"""Global variable of an executed config: the old names in it, a tuple of strings."""


def rename_in(tree: ast.Module, path: str) -> tuple[str, ...]:
    """Replaces the old names in the syntax tree of a config, which is changed in place.

    Returns:
      The old names, without repetitions, in the order of the file.

    Raises:
      ConfigError: a name has no counterpart, is called, or has another meaning today.
    """
    if any(isinstance(node, ast.Import) and any(alias.asname == "tf" and alias.name != "tensorflow"
                                                for alias in node.names) for node in ast.walk(tree)):
        return ()  # such as tensorflow.compat.v1, which has some of these names
    renaming = _Renaming()
    renaming.visit(tree)
    if not renaming.used and not renaming.problems:
        return ()
    problems = [*renaming.problems, *renaming.refused]
    if problems:
        raise ConfigError([f"{path}, line {line}: {problem}" for line, problem in sorted(problems)])
    ast.fix_missing_locations(tree)
    return tuple(dict.fromkeys(renaming.used))


class _Renaming(ast.NodeTransformer):
    """Replaces old names by their counterparts.

    Attributes:
      used: the old names that were replaced.
      problems: pairs of a line and what is wrong in it.
      refused: the same for names that are wrong only in a config that uses old names.
    """

    def __init__(self) -> None:
        self.used: list[str] = []
        self.problems: list[tuple[int, str]] = []
        self.refused: list[tuple[int, str]] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # noqa: N802
        """Replaces ``tf.contrib.layers.l2_regularizer`` by ``"l2_regularizer"``."""
        name = _dotted(node)
        if name in NAMES:
            self.used.append(name)
            return ast.copy_location(ast.Constant(NAMES[name]), node)
        if name in _REFUSED:
            self.refused.append((node.lineno, f"{name} {_REFUSED[name]}"))
        elif f"{name}.".startswith(_GONE):
            self._complain(node, name)
        else:
            self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:  # noqa: N802
        """Refuses classes that are derived from an old name."""
        for name in filter(NAMES.__contains__, map(_dotted, node.bases)):
            self.problems.append((node.lineno, f"{node.name} is derived from {name} of TensorFlow 1: {_COMPONENTS}"))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        """Refuses ``tf.contrib.layers.l2_regularizer(scale=0.1)``."""
        name = _dotted(node.func)
        if name not in NAMES:
            return self.generic_visit(node)
        parameter = next((params for ending, params in _ARGUMENTS.items() if ending in name), None)
        self.problems.append((node.lineno, f"{name} of TensorFlow 1 is called, but only its name can be used: " + (
            f"give {NAMES[name]!r}, and the arguments in {parameter}." if parameter else
            _COMPONENTS)))
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:  # noqa: N802
        """Replaces names that are imported from TensorFlow 1 or from modules of the original."""
        module = (node.module or "").replace("tensorflow", "tf", 1)
        kept, added = [], []
        for alias in node.names:
            name = f"{module}.{alias.name}"
            if name in NAMES or name in IMPORTS:
                self.used.append(name)
                added.append(_import_of(name, alias.asname or alias.name))
            else:
                if f"{name}.".startswith(_GONE):
                    self._complain(node, name)
                kept.append(alias)
        node.names = kept
        return [*([node] if kept else []), *(ast.copy_location(one, node) for one in added)]

    def _complain(self, node: ast.expr | ast.stmt, name: str) -> None:
        room, _, last = name.rpartition(".")
        if name in _MODULES:
            problem = f"Write each name of {name} in full, such as {name}.{next(iter(_MODULES[name]))}."
        else:
            problem = f"{name} of TensorFlow 1 has no counterpart here.{did_you_mean(last, _MODULES.get(room, {}))}"
        self.problems.append((node.lineno, problem))


def _import_of(name: str, target: str) -> ast.stmt:
    """Returns the statement that gives the counterpart of an old name the name ``target``."""
    if name in NAMES:
        return ast.parse(f"{target} = {NAMES[name]!r}").body[0]
    module, new = IMPORTS[name]
    return ast.parse(f"from {module} import {new} as {target}").body[0]


def _dotted(node: ast.AST) -> str:
    """Returns ``tf.nn.relu`` for an attribute of an attribute of the name ``tf`` or ``tensorflow``; else ""."""
    parts = list(_parts(node))
    return ".".join(["tf", *parts[1:]]) if parts and parts[0] in ("tf", "tensorflow") else ""


def _parts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield from _parts(node.value)
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        yield ""
