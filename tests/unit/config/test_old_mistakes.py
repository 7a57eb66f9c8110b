"""Mistakes in configs of NVIDIA's OpenSeq2Seq: each is answered with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from open_seq2seq.cli import main
from open_seq2seq.config.loader import load_config

PARTS = Path(__file__).parents[3] / "docs" / "examples" / "own_parts.py"
CONFIG = f'''
PARTS = "{PARTS}"
base_model = PARTS + ":MajorityModel"
base_params = {{
    "logdir": "run", "batch_size_per_gpu": 2, "max_steps": 1, "dtype": tf.float32, "optimizer": "Adam",
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.01}},
    "regularizer": tf.contrib.layers.l2_regularizer, "regularizer_params": {{"scale": 0.1}},
    "data_layer": PARTS + ":MajorityData", "data_layer_params": {{"num_symbols": 6, "size": 4}},
    "encoder": PARTS + ":BagEncoder", "encoder_params": {{"num_symbols": 6, "hidden_size": 4}},
    "decoder": PARTS + ":SymbolDecoder", "decoder_params": {{"num_symbols": 6, "hidden_size": 4}},
    "loss": PARTS + ":SymbolLoss"}}
'''
PORT = "docs/components.md, under \"Coming from NVIDIA's OpenSeq2Seq\", shows how to write a part with TensorFlow 2."

CALLED = "TensorFlow 1 is called, but only its name can be used: "


def value(expression: str, key: str = "regularizer") -> str:
    return f"base_params[{key!r}] = {expression}"


def encoder(body: str, method: str = "_encode(self, input_dict)") -> str:
    """An encoder of the config's own, in which a method has the given body."""
    return ("from open_seq2seq.encoders import Encoder\nclass Own(Encoder):\n"
            "    get_required_params = staticmethod(lambda: {'num_symbols': int, 'hidden_size': int})\n"
            f"    def {method}:\n        {body}\nbase_params['encoder'] = Own")


MISTAKES = {
    "an unknown name": (value("tf.contrib.layers.l3_regularizer"),
                        "config.py, line 13: tf.contrib.layers.l3_regularizer of TensorFlow 1 has no counterpart here. "
                        "Did you mean 'l2_regularizer'?"),
    "an unknown module": (value("tf.contrib.nothing"),
                          f"tf.contrib.nothing of TensorFlow 1 has no counterpart here. {PORT}"),
    "an unknown optimizer": (value("tf.contrib.opt.AdamWOptimizer", "optimizer"),
                             "tf.contrib.opt.AdamWOptimizer of TensorFlow 1 has no counterpart here. Did you mean"),
    "a called regulariser": (value("tf.contrib.layers.l2_regularizer(scale=0.1)"),
                             "is called, but only its name can be used: give 'l2_regularizer', and the arguments in "
                             "regularizer_params."),
    "a called initialiser": (value("tf.glorot_uniform_initializer()", "initializer"),
                             "give 'GlorotUniform', and the arguments in initializer_params."),
    "a called cell": (value("tf.nn.rnn_cell.LSTMCell(8)", "x"), "and the arguments in core_cell_params."),
    "a module instead of a name": (value("tf.contrib.layers"), "Write each name of tf.contrib.layers in full, such as"),
    "an imported module": ("from tensorflow.contrib import layers", "Write each name of tf.contrib.layers in full"),
    "another imported module": ("import tensorflow.contrib.layers as layers",
                                "Of tensorflow.contrib, only names can be used, in full, such as"),
    "an unknown initialiser": (value("tf.uniform_initializer", "initializer"),
                               "Initialisers are in tf.keras.initializers"),
    "an unknown optimizer of tf.train": (value("tf.train.ProximalAdagradOptimizer", "optimizer"),
                                         "If tf.train.ProximalAdagradOptimizer is a name of TensorFlow 1: docs/"),
    "dropout as a layer": (value("[tf.layers.conv2d, tf.nn.dropout]", "x"), "tf.nn.dropout means the opposite today"),
    "a misspelt class": ("from open_seq2seq.encoders import TransformerEncodr", "Did you mean 'TransformerEncoder'?"),
    "a misspelt parameter": ("base_params['encoder_params']['hiden_size'] = 4", "Did you mean 'hidden_size'?"),
    "an undefined name": (value("all_styles"), "NameError: name 'all_styles' is not defined."),
    "a module of a fork": ("from open_seq2seq.data.fork import Layer",
                           "No module named 'open_seq2seq.data.fork'. This package has no such module: if it is one "),
    "half precision": (value("tf.float16", "dtype"), "'dtype' is tf.float16, but training purely in half precision is"),
    "a lambda": (value("lambda global_step, learning_rate: learning_rate", "lr_policy"),
                 "'lr_policy' is a lambda, which cannot be found by name"),
    "two lengths": (value("3", "num_epochs"), "'max_steps' is 1 and 'num_epochs' is 3, but only one of them may"),
    "no model": ("del base_model", "defines no base_model"),
    "a missing base": ("base_config = 'bas.py'", "bas.py, does not exist. Did you mean 'base.py'?"),
    "a hook for sessions": ("class Own(tf.train.SessionRunHook): pass",
                            f"If tf.train.SessionRunHook is a name of TensorFlow 1: {PORT}"),
    "a class derived from a cell": ("class Own(tf.nn.rnn_cell.LSTMCell): pass",
                                    f"Own is derived from tf.nn.rnn_cell.LSTMCell of TensorFlow 1: {PORT}"),
    "a body with variables": (encoder("return tf.get_variable('kernel', [2, 2])"),
                              f"config.py, line 17: module 'tensorflow' has no attribute 'get_variable'. If "
                              f"tf.get_variable is a name of TensorFlow 1: {PORT}"),
    "a body with layers": (encoder("return tf.layers.dense(input_dict, 4)"),
                           f"line 17: tf.layers.dense of {CALLED}{PORT}"),
    "a body with a cell": (encoder("return tf.nn.rnn_cell.LSTMCell(4)"),
                           f"line 17: tf.nn.rnn_cell.LSTMCell of {CALLED}{PORT}"),
    "changed parameters": (encoder("super().__init__(params, model, name, mode)\n"
                                   "        self.params['hidden_size'] = 8",
                                   "__init__(self, params, model, name, mode)"),
                           "self.params must not be changed, but 'encoder_params/hidden_size' is: keep the value in "),
}


@pytest.mark.parametrize("mistake", [*MISTAKES, "JSON"])
def test_a_mistake_is_answered_with_one_sentence(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    Path("base.py").write_text(CONFIG)
    text, message = MISTAKES.get(mistake, ("", "config.json has to end in .py, .yaml or .yml: the JSON of version 0.2"))
    name = "config.json" if mistake == "JSON" else "config.py"
    Path(name).write_text(f"{CONFIG}\n{text}\n")
    assert main([f"--config_file={name}", "--check"]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_what_is_never_used_and_what_is_for_tensorflow_2_is_no_mistake(tmp_path: Path):
    unused = ["z = tf.nn.dropout(tf.ones([1]), rate=0.5)\n",
              "if False:\n    x = tf.contrib.nothing\n", "def helper(x):\n    return tf.layers.dense(x, 3)\n",
              "try:\n    import missing\nexcept ImportError:\n    layers = None\nelse:\n    y = tf.layers.nothing\n",
              encoder("return tf.nn.rnn_cell.LSTMCell(4)").rpartition("\n")[0]]
    (tmp_path / "config.py").write_text(CONFIG + "\n".join(unused))
    assert load_config(tmp_path / "config.py").old_names == ("tf.contrib.layers.l2_regularizer",)


def test_a_config_may_define_a_name_of_tensorflow_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tf, "layers", None, raising=False)  # what the config sets is removed after the test
    (tmp_path / "config.py").write_text(f"{CONFIG}\nclass Shim:\n    pass\ntf.layers = Shim\n")
    assert load_config(tmp_path / "config.py").sections["base_params"]["regularizer"] == "l2_regularizer"
