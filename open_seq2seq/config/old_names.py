"""Names in configs of NVIDIA's OpenSeq2Seq that no longer exist, and the names that replace them.

Such a config mentions classes and functions of TensorFlow 1, as in ``"regularizer": tf.contrib.layers.l2_regularizer``,
but never calls them. In the syntax tree of the config, each is replaced by the string that a YAML config gives, here
``"l2_regularizer"``, before the config is executed. A name that cannot be replaced is an error only when it is used: a
function that is never called does not matter. A config without such names is executed as it is, and nothing else in the
package knows of TensorFlow 1.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NoReturn

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
_COMPONENTS = ("docs/components.md, under \"Coming from NVIDIA's OpenSeq2Seq\", shows how to write a part with "
               "TensorFlow 2.")
_MISSING = re.compile(r"module '(tensorflow[\w.]*)' has no attribute '(\w+)'")
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
    "open_seq2seq.losses.TacotronLoss": ("open_seq2seq.losses", "Text2SpeechLoss"),
    "open_seq2seq.losses.CentaurLoss": ("open_seq2seq.losses", "Text2SpeechLoss"),
}
"""Name that only configs of the original import → its module and name today."""

USED = "_open_seq2seq_old_names"
"""Global variable of an executed config: the old names in it, a tuple of strings."""

REFUSE = "_open_seq2seq_refuse"
"""Global variable of an executed config: the function ``refuse``."""


def refuse(problem: str) -> NoReturn:
    """Takes the place of an old name that cannot be replaced.

    Raises:
      ConfigError: always.
    """
    raise ConfigError([problem])


def port_of(error: BaseException) -> str:
    """Returns a sentence about an error of code for TensorFlow 1, such as a call of ``tf.get_variable``; else ""."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("tensorflow.contrib"):
        return "Of tensorflow.contrib, only names can be used, in full, such as tf.contrib.layers.l2_regularizer."
    missing = _MISSING.match(str(error)) if isinstance(error, AttributeError) else None
    if missing is None:
        return ""
    if missing[2].endswith(("initializer", "regularizer")):
        return "Initialisers are in tf.keras.initializers, and regularisers in tf.keras.regularizers."
    place = missing[1].replace("tensorflow._api.v2", "tensorflow").replace("tensorflow", "tf", 1)
    return f"If {place}.{missing[2]} is a name of TensorFlow 1: {_COMPONENTS}"


def rename_in(tree: ast.Module, path: str) -> tuple[str, ...]:
    """Replaces the old names in the syntax tree of a config, which is changed in place.

    A name that has no counterpart, is called, or has another meaning today, is replaced by a call of ``refuse``.

    Returns:
      The names that were replaced by those of today, without repetitions, in the order of the file.
    """
    if any(isinstance(node, ast.Import) and any(alias.asname == "tf" and alias.name != "tensorflow"
                                                for alias in node.names) for node in ast.walk(tree)):
        return ()  # such as tensorflow.compat.v1, which has some of these names
    renaming = _Renaming(path)
    renaming.visit(tree)
    if renaming.used:
        _Refusing(path).visit(tree)
    ast.fix_missing_locations(tree)
    return tuple(dict.fromkeys(renaming.used))


class _InConfig(ast.NodeTransformer):
    """Base of what changes the syntax tree of a config.

    Args:
      path: the config, for messages.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def _refusal(self, node: ast.expr | ast.stmt, problem: str) -> ast.expr:
        call = ast.parse(f"{REFUSE}({f'{self._path}, line {node.lineno}: {problem}'!r})", mode="eval").body
        return ast.copy_location(call, node)


class _Renaming(_InConfig):
    """Replaces old names by their counterparts.

    Attributes:
      used: the old names that were replaced.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.used: list[str] = []
        self._in_body = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # noqa: N802
        """Notes that calls belong to the body of a function, not to a value of the config."""
        outside, self._in_body = self._in_body, True
        self.generic_visit(node)
        self._in_body = outside
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # noqa: N802
        """Replaces ``tf.contrib.layers.l2_regularizer`` by ``"l2_regularizer"``."""
        if not isinstance(node.ctx, ast.Load):  # a config that defines the name itself
            return self.generic_visit(node)
        name = _dotted(node)
        if name in NAMES:
            self.used.append(name)
            return ast.copy_location(ast.Constant(NAMES[name]), node)
        return self._refusal(node, _problem(name)) if f"{name}.".startswith(_GONE) else self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:  # noqa: N802
        """Refuses classes that are derived from an old name."""
        node.bases = [self._refusal(base, f"{node.name} is derived from {_dotted(base)} of TensorFlow 1: {_COMPONENTS}")
                      if _dotted(base) in NAMES or f"{_dotted(base)}.".startswith(_GONE) else base
                      for base in node.bases]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        """Refuses ``tf.contrib.layers.l2_regularizer(scale=0.1)``."""
        name = _dotted(node.func)
        if name not in NAMES:
            return self.generic_visit(node)
        parameter = next((params for part, params in _ARGUMENTS.items() if part in name and not self._in_body), None)
        return self._refusal(node, f"{name} of TensorFlow 1 is called, but only its name can be used: " + (
            f"give {NAMES[name]!r}, and the arguments in {parameter}." if parameter else _COMPONENTS))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:  # noqa: N802
        """Replaces names that are imported from TensorFlow 1 or from modules of the original."""
        module = (node.module or "").replace("tensorflow", "tf", 1)
        kept: list[ast.alias] = []
        added: list[ast.stmt] = []
        for alias in node.names:
            name = f"{module}.{alias.name}"
            if name in NAMES or name in IMPORTS:
                self.used.append(name)
                added.append(_import_of(name, alias.asname or alias.name))
            else:
                if f"{name}.".startswith(_GONE):
                    added.append(ast.Expr(self._refusal(node, _problem(name))))
                else:
                    kept.append(alias)
        node.names = kept
        return [*([node] if kept else []), *(ast.copy_location(one, node) for one in added)]


class _Refusing(_InConfig):
    """Replaces names that have another meaning today; used only in configs with old names."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # noqa: N802
        """Replaces ``tf.nn.dropout``."""
        name = _dotted(node)
        return self._refusal(node, f"{name} {_REFUSED[name]}") if name in _REFUSED else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        """Keeps ``tf.nn.dropout(x, rate=0.1)``, which is code for TensorFlow 2."""
        if _dotted(node.func) in _REFUSED and any(keyword.arg == "rate" for keyword in node.keywords):
            return node
        return self.generic_visit(node)


def _problem(name: str) -> str:
    """Returns what is wrong with a name of TensorFlow 1 that has no counterpart."""
    if name in _MODULES:
        return f"Write each name of {name} in full, such as {name}.{next(iter(_MODULES[name]))}."
    room, _, last = name.rpartition(".")
    hint = did_you_mean(last, _MODULES.get(room, {})) or f" {_COMPONENTS}"
    return f"{name} of TensorFlow 1 has no counterpart here.{hint}"


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
