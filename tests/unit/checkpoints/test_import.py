"""Checkpoints of NVIDIA's OpenSeq2Seq become log directories, and mistakes are said in one sentence."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import open_seq2seq
from open_seq2seq.checkpoints import load_checkpoint
from open_seq2seq.checkpoints.original import Conventions, OriginalFiles, convert, read_original
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.rnn.layers import Direction, packed_weights
from open_seq2seq.run.restoring import load_base_model
from open_seq2seq.utils.errors import CheckpointError, UserError
from scripts.import_checkpoint import build, converted
from scripts.import_checkpoint import main as import_checkpoint

WEIGHTS = Path(__file__).parent / "original" / "transformer.npz"
CONFIG = """
import tensorflow as tf
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text

base_model = Text2Text
sizes = {"hidden_size": 32, "num_heads": 4, "filter_size": 64, "layer_postprocess_dropout": 0.1,
         "attention_dropout": 0.1, "relu_dropout": 0.1}
base_params = {
    "use_horovod": False, "num_gpus": 1, "batch_size_per_gpu": 2, "max_steps": 10, "logdir": "unused",
    "optimizer": tf.contrib.opt.LazyAdamOptimizer, "optimizer_params": {}, "lr_policy": "fixed_lr",
    "lr_policy_params": {"learning_rate": 1e-3}, "dtype": tf.float32,
    "encoder": TransformerEncoder, "encoder_params": {**sizes, "encoder_layers": 2,
                                                      "pad_embeddings_2_eight": True, "remove_padding": True},
    "decoder": TransformerDecoder, "decoder_params": {
        **sizes, "num_hidden_layers": 2, "beam_size": 4, "alpha": 0.6, "extra_decode_length": 8, "EOS_ID": 1,
        "GO_SYMBOL": 2, "END_SYMBOL": 1, "PAD_SYMBOL": 0},
    "loss": PaddedCrossEntropyLossWithSmoothing, "loss_params": {"label_smoothing": 0.1},
}
infer_params = {
    "data_layer": ParallelTextDataLayer, "data_layer_params": {
        "src_vocab_file": "FOLDER/vocab.txt", "tgt_vocab_file": "FOLDER/vocab.txt", "source_file": "FOLDER/none.txt",
        "target_file": "FOLDER/none.txt", "max_length": 32, "delimiter": " ", "shuffle": False, "repeat": False,
        "special_tokens_already_in_vocab": True},
}
"""
TABLE = "ForwardPass/transformer_encoder/embedding_shared_weights/embedding_and_softmax/weights"
OPTIMIZER = {"global_step": np.int64(7), "Loss_Optimization/beta1_power": np.float32(0.9)}


def write(prefix: Path, arrays: Mapping[str, np.ndarray]) -> OriginalFiles:
    """Writes a checkpoint as TensorFlow 1 did: tensors by name, without a graph of objects."""
    names = sorted(arrays)
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(arrays[name]) for name in names])
    return OriginalFiles(prefix)


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    stored = np.load(WEIGHTS)
    return {name.removeprefix("weight."): stored[name] for name in stored if name.startswith("weight.")}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    tokens = ["<pad>", "</s>", "<s>", "<unk>", *map("w{}".format, range(28))]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    path = folder / "old.py"
    path.write_text(CONFIG.replace("FOLDER", str(folder)))
    return path


@pytest.fixture(scope="module")
def model(config: Path) -> Model:
    return build(str(config), str(config.with_name("unused")))[0]


def test_a_checkpoint_becomes_a_logdir(arrays, config: Path, tmp_path: Path, capsys):
    files = write(tmp_path / "model.ckpt-7", {**arrays, **OPTIMIZER})
    import_checkpoint([str(config), str(files), str(tmp_path / "run")])
    assert "Not needed: 2 variables" in capsys.readouterr().out
    checkpoint = load_checkpoint(tmp_path / "run" / "model.ckpt-7")
    assert (checkpoint.state["step"], len(checkpoint.weights)) == (7, len(arrays))
    np.testing.assert_array_equal(checkpoint.weights["encoder/embedding/table"], arrays[TABLE])
    with pytest.raises(UserError, match="already exists: give a new folder"):
        import_checkpoint([str(config), str(files), str(tmp_path / "run")])


def test_a_config_without_inference_is_imported_for_evaluation(config: Path, tmp_path: Path):
    """Its data have to exist."""
    text = config.read_text().replace("infer_params", "eval_params").replace("none.txt", "text.txt")
    (config.with_name("text.txt")).write_text("w1 w2\n")
    (tmp_path / "old.py").write_text(text)
    assert build(str(tmp_path / "old.py"), "unused")[0].mode == "eval"


@pytest.mark.long
def test_the_logdir_translates_as_the_original(arrays, config: Path, tmp_path: Path):
    import_checkpoint([str(config), str(write(tmp_path / "model.ckpt", arrays)), str(tmp_path / "run")])
    sentence, translation = "w26 w7", "w10"  # the second row of the inputs and outputs there
    assert {*open_seq2seq.load(tmp_path / "run").translate(sentence).split()} == {translation}


def test_load_model_takes_the_weights_of_the_original(arrays, model: Model, tmp_path: Path, capsys):
    files = write(tmp_path / "model.ckpt-7", {**arrays, **OPTIMIZER})
    assert OriginalFiles.at(tmp_path / "model.ckpt-7.index") == OriginalFiles.newest_in(tmp_path) == files
    variables = named_variables(model)
    optimizer = types.SimpleNamespace(restart_average=lambda trained: None)
    load_base_model(model, types.SimpleNamespace(weights=variables, trainable={}, optimizer=optimizer), files)
    assert f"{len(arrays)} of {len(arrays)} variables loaded" in capsys.readouterr().out
    np.testing.assert_array_equal(variables["encoder/embedding/table"], arrays[TABLE])


def test_copies_in_fp32_replace_rounded_weights(arrays, tmp_path: Path):
    rounded = {**arrays, TABLE: arrays[TABLE].astype(np.float16),
               f"Loss_Optimization/FP32-master-copy/{TABLE}": arrays[TABLE]}
    np.testing.assert_array_equal(read_original(write(tmp_path / "model.ckpt", rounded)).arrays[TABLE], arrays[TABLE])


@pytest.mark.parametrize(("change", "message"), [
    ({TABLE: None}, "does not fit this config: Not restoring encoder/embedding/table: not in the checkpoint. Give"),
    ({TABLE: np.zeros([40, 32], np.float32)}, r"table: its shape is \(32, 32\) in the model but \(40, 32\) in the"),
    ({"ForwardPass/transformer_encoder/layer_9/ffn/layer_normalization/layer_norm_bias": np.zeros(32, np.float32)},
     "does not fit this config: Not used from the checkpoint: ForwardPass/transformer_encoder/layer_9/ffn"),
    ({TABLE: np.full([32, 32], np.nan, np.float32)}, "weights contains inf or NaN"),
], ids=["missing", "shape", "unused", "NaN"])
def test_a_checkpoint_that_does_not_fit_is_refused(change, message: str, arrays, model: Model, tmp_path: Path):
    changed = {name: value for name, value in {**arrays, **change}.items() if value is not None}
    with pytest.raises(CheckpointError, match=message):
        converted(str(write(tmp_path / "model.ckpt", changed)), model)


def test_a_checkpoint_of_another_family_is_refused(model: Model, tmp_path: Path):
    files = write(tmp_path / "model.ckpt",
                  {"ForwardPass/ds2_encoder/conv1/kernel": np.zeros([5, 7, 1, 8], np.float32)})
    with pytest.raises(CheckpointError, match=r"does not fit this config: .*; and \d+ more\. Give the config"):
        converted(str(files), model)
    with pytest.raises(CheckpointError, match="No variable of this model has the name and shape of one in"):
        load_base_model(model, types.SimpleNamespace(weights=named_variables(model)), files)


def test_files_that_are_not_whole_or_not_the_originals_are_refused(arrays, model: Model, tmp_path: Path):
    files = write(tmp_path / "model.ckpt", arrays)
    data = tmp_path / "model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="is damaged or incomplete"):
        read_original(files)
    data.unlink()
    with pytest.raises(CheckpointError, match="is damaged or incomplete"):
        read_original(files)
    (tmp_path / "model.ckpt.index").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is damaged or incomplete"):
        read_original(files)
    with pytest.raises(CheckpointError, match="There is no checkpoint of TensorFlow at"):
        converted(str(tmp_path / "absent"), model)
    objects = tf.train.Checkpoint(weights=tf.Variable(1.0)).write(str(tmp_path / "objects"))
    with pytest.raises(CheckpointError, match="is not a checkpoint of NVIDIA's OpenSeq2Seq"):
        read_original(OriginalFiles(Path(objects)))


def test_kernels_may_have_the_frequency_before_the_time():
    kernel = np.arange(5 * 3 * 8, dtype=np.float32).reshape(5, 3, 1, 8)
    name = "encoder/convolution_0/layer_0/convolution/kernel"
    for layout, expected in (("BFTC", kernel.swapaxes(0, 1)), ("BTFC", kernel)):
        conventions = Conventions.of({"encoder": {"data_format": layout}})
        conversion = convert({"ForwardPass/ds2_encoder/conv1/kernel": kernel}, {name: expected.shape}, conventions)
        np.testing.assert_array_equal(conversion.weights[name], expected)


def direction_shapes(prefix: str, direction: Direction) -> dict[str, tf.Variable]:
    return {f"{prefix}/{name}": variable for name, variable in named_variables(direction).items()}


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_array_of_cudnn_is_unpacked(cell: str):
    with creating_variables(1):
        layers = [[Direction(size, 4, cell, "glorot_uniform") for _ in range(2)] for size in (3, 8)]
    variables: dict[str, tf.Variable] = {}
    packed = []
    for number, pair in enumerate(layers):
        for way, direction in zip(("forward", "backward"), pair, strict=True):
            variables |= direction_shapes(f"encoder/rnn/layer_{number}/{way}", direction)
            packed.append(np.split(packed_weights(direction, tf.float32).numpy(), [-8 * direction.cell.gates]))
    flat = np.concatenate([part[number] for number in (0, 1) for part in packed])  # all matrices, then all biases
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    name = f"ForwardPass/ds2_encoder/cudnn_{cell}/opaque_kernel"
    conversion = convert({name: flat}, shapes, Conventions())
    assert conversion.unused == []
    for path, variable in variables.items():
        np.testing.assert_array_equal(conversion.weights[path], variable)
    with pytest.raises(CheckpointError, match="are not those of the recurrent layers of this config"):
        convert({name: flat[1:]}, shapes, Conventions())


def test_cells_that_cudnn_has_saved_compute_the_same():
    rng = np.random.default_rng(0)
    place = "ForwardPass/ds2_encoder/cudnn_gru/rnn/multi_rnn_cell/cell_0/cudnn_compatible_gru_cell/"
    arrays = {place + name: rng.normal(size=shape).astype(np.float32) for name, shape in (
        ("gates/kernel", (7, 8)), ("gates/bias", 8), ("candidate/input_projection/kernel", (3, 4)),
        ("candidate/input_projection/bias", 4), ("candidate/hidden_projection/kernel", (4, 4)),
        ("candidate/hidden_projection/bias", 4))}
    with creating_variables(1):
        direction = Direction(3, 4, "gru")
    variables = direction_shapes("encoder/rnn/layer_0/forward", direction)
    weights = convert(arrays, {name: tuple(one.shape) for name, one in variables.items()}, Conventions()).weights
    for name, variable in variables.items():
        variable.assign(weights[name])
    values = {name.removeprefix(place): value for name, value in arrays.items()}
    x, h = rng.normal(size=(5, 1, 3)).astype(np.float32), np.zeros([1, 4])
    for step in x:
        r, u = np.split(1 / (1 + np.exp(-np.concatenate([step, h], 1) @ values["gates/kernel"] - values["gates/bias"])),
                        2, -1)
        of_input, of_state = (inputs @ values[f"candidate/{name}_projection/kernel"]
                              + values[f"candidate/{name}_projection/bias"]
                              for name, inputs in (("input", step), ("hidden", h)))
        h = u * h + (1 - u) * np.tanh(of_input + r * of_state)
    np.testing.assert_allclose(direction(tf.constant(x), tf.constant([5]))[0][-1], h, atol=1e-6)


@pytest.mark.parametrize(("name", "message"), [
    ("multi_rnn_cell/cell_1/lstm_cell/kernel", "two separate stacks of recurrent layers"),
    ("multi_rnn_cell/cell_0/gru_cell/candidate/kernel", "whose reset gate is applied before the matrix product")])
def test_layers_that_compute_something_else_are_refused(name: str, message: str):
    arrays = {f"ForwardPass/ds2_encoder/bidirectional_rnn/fw/{name}": np.zeros([2, 4], np.float32)}
    with pytest.raises(CheckpointError, match=message):
        convert(arrays, {"encoder/rnn/layer_0/forward/recurrent_bias": (1,)}, Conventions())
