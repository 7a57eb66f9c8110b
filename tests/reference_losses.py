"""Trains a small recipe of each family for 50 updates, and writes the losses or compares them with those of a file.

usage: python tests/reference_losses.py --write FILE [--recipes RECIPE ...] [--dtypes DTYPE ...]
       python tests/reference_losses.py --compare FILE [--recipes RECIPE ...] [--dtypes DTYPE ...]

A change that must not change results is proven with it. In the environment in which the file was written (processor,
oneDNN, number of threads, version of TensorFlow), the losses must have the same bits; in any other, they must agree
within a tolerance. The recipes are the names in ``RECIPES``, which are trained on toy data made in a temporary folder,
or config files of the repository, such as example_configs/text2text/en-de/gnmt-multi30k.py, whose data must be in the
current folder. The default is to write all of ``RECIPES``, and to compare all recipes of the file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
UPDATES = 50
DTYPES = ("float32", "mixed_bfloat16")
LOSSES = "losses.json"  # the file that ``Recorder`` writes in the logdir
# Losses are those of one thread of the CPU, so that they have the same bits on machines with other numbers of cores.
ENVIRONMENT = {"TF_NUM_INTRAOP_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}

# Allowed relative differences, in another environment, of the first ``EARLY`` losses and of later ones: rounding grows
# from update to update, most with batch norm. Between oneDNN on, off and restricted to AVX2, and 1 and 2 threads, the
# largest differences were 7e-6 and 9e-4 in float32, and 8e-3 and 2e-2 in bfloat16.
EARLY = 10
TOLERANCES = {"float32": (1e-4, 1e-2), "mixed_bfloat16": (3e-2, 1e-1)}

_RUN = ["--mode=train", f"--max_steps={UPDATES}", "--random_seed=0", "--average_checkpoints=None",
        *(f"--{name}_steps=None" for name in ("print_loss", "print_samples", "save_checkpoint", "save_summaries"))]
_SMALL_TRANSFORMER = ["--batch_size_per_gpu=16", "--lr_policy_params/warmup_steps=25"]


def _sizes(section: str, layers: str) -> list[str]:
    return [f"--{section}/{layers}=1", f"--{section}/hidden_size=32", f"--{section}/num_heads=4",
            f"--{section}/filter_size=64"]


# Family → config file in example_configs/ and the values that make it small, or that let it use toy data.
RECIPES: dict[str, tuple[str, list[str]]] = {
    "transformer": ("text2text/toy-reversal/nmt-reversal-TT.py", [
        *_SMALL_TRANSFORMER, *_sizes("encoder_params", "encoder_layers"),
        *_sizes("decoder_params", "num_hidden_layers"), "--loss_params/label_smoothing=0.1"]),
    "two sources": ("text2text/toy-several/two-sources.py", [
        *_SMALL_TRANSFORMER, *_sizes("encoder_params/encoders/first/encoder_params", "encoder_layers"),
        *_sizes("encoder_params/encoders/second/encoder_params", "encoder_layers"),
        *_sizes("decoder_params", "num_hidden_layers")]),
    "two targets": ("text2text/toy-several/reverse-and-copy.py", [
        *_SMALL_TRANSFORMER, *_sizes("encoder_params", "encoder_layers"),
        *_sizes("decoder_params/decoder_params", "num_hidden_layers")]),
    "recurrent": ("text2text/toy-reversal/nmt-reversal-RR.py", [
        "--batch_size_per_gpu=16", "--encoder_params/core_cell_params/num_units=32",
        "--decoder_params/core_cell_params/num_units=32", "--decoder_params/attention_layer_size=32"]),
    "gnmt": ("text2text/en-de/gnmt-multi30k.py", [
        "--batch_size_per_gpu=128", "--encoder_params/src_emb_size=32", "--decoder_params/tgt_emb_size=32",
        "--encoder_params/core_cell_params/num_units=32", "--decoder_params/core_cell_params/num_units=32",
        "--decoder_params/attention_layer_size=32", "--lr_policy_params/warmup_steps=10",
        "--data_layer_params/tokenizer=None", "--data_layer_params/src_vocab_file=toy_text_data/vocab/source.txt",
        "--data_layer_params/tgt_vocab_file=toy_text_data/vocab/source.txt",
        "--data_layer_params/special_tokens_already_in_vocab=False",
        "--data_layer_params/source_file=toy_text_data/train/source.txt",
        "--data_layer_params/target_file=toy_text_data/train/target.txt"]),
    "convs2s": ("text2text/toy-reversal/nmt-reversal-CC.py", [
        "--batch_size_per_gpu=16", "--encoder_params/src_emb_size=32", "--decoder_params/tgt_emb_size=32",
        "--decoder_params/out_emb_size=32", "--encoder_params/conv_nchannels_kwidth=[[32, 3], [32, 3]]",
        "--decoder_params/conv_nchannels_kwidth=[[32, 3], [32, 3]]"]),
    "deep speech": ("speech2text/ds2_toy_config.py", [
        "--encoder_params/conv_layers=[{kernel_size: [11, 21], stride: [2, 2], num_channels: 8, padding: SAME}, "
        "{kernel_size: [5, 11], stride: [1, 2], num_channels: 8, padding: SAME}]",
        "--data_layer_params/num_audio_features=40", "--encoder_params/rnn_cell_dim=32",
        "--encoder_params/row_conv=False", "--encoder_params/n_hidden=32", "--data_layer_params/sample_freq=8000"]),
    "wave2letter": ("speech2text/toy-w2l.py", [
        "--batch_size_per_gpu=8", "--lr_policy_params/warmup_steps=10", "--lr_policy_params/learning_rate=0.001"]),
    "jasper": ("speech2text/jasper10x5_LibriSpeech_nvgrad.py", [
        "--batch_size_per_gpu=8", "--encoder_params/convnet_layers=["
        "{type: conv1d, repeat: 1, kernel_size: [11], stride: [2], num_channels: 24, padding: SAME, dilation: [1], "
        "dropout_keep_prob: 0.8}, "
        "{type: conv1d, repeat: 2, kernel_size: [11], stride: [1], num_channels: 24, padding: SAME, dilation: [1], "
        "dropout_keep_prob: 0.8, residual: True, residual_dense: True}, "
        "{type: sep_conv1d, repeat: 2, kernel_size: [13], stride: [1], num_channels: 32, padding: SAME, dilation: [2], "
        "dropout_keep_prob: 0.8, residual: True, residual_dense: True}]",
        "--data_layer_params/sample_freq=8000", "--data_layer_params/vocab_file=toy_speech_data/vocab.txt",
        "--data_layer_params/dataset_files=[toy_speech_data/train.csv]"]),
    "joint CTC and attention": ("speech2text/digits-jca.py", [
        "--batch_size_per_gpu=8", "--lr_policy_params/warmup_steps=10", "--encoder_params/convnet_layers=["
        "{type: conv1d, repeat: 2, kernel_size: [11], stride: [2], num_channels: 24, padding: SAME, dilation: [1], "
        "dropout_keep_prob: 0.8}]",
        "--encoder_params/recurrent_layers=[{type: gru, num_layers: 1, hidden_dim: 24, dropout_keep_prob: 0.8}]",
        "--decoder_params/attn_decoder_params/tgt_emb_size=24", "--decoder_params/attn_decoder_params/hidden_dim=32",
        "--decoder_params/attn_decoder_params/attention_params/attention_dim=24",
        "--data_layer_params/vocab_file=toy_speech_data/vocab.txt",
        "--data_layer_params/dataset_files=[toy_speech_data/train.csv]"]),
    "lstm language model": ("lm/awd-lstm-wkt2.py", [
        "--batch_size_per_gpu=8", "--encoder_params/core_cell_params/num_units=32", "--encoder_params/emb_size=24",
        "--encoder_params/encoder_layers=2", "--data_layer_params/bptt=12", "--lr_policy_params/learning_rate=5",
        "--data_layer_params/data_root=toy_text_lm", "--data_layer_params/processed_data_folder=toy_text_lm/awd"]),
    "transformer language model": ("lm/transformer-wkt2.py", [
        "--batch_size_per_gpu=8", *_sizes("encoder_params", "encoder_layers"), "--encoder_params/memory_length=12",
        "--encoder_params/adaptive_softmax/cutoffs=[20]", "--lr_policy_params/warmup_steps=10",
        "--data_layer_params/bptt=12", "--data_layer_params/data_root=toy_text_lm",
        "--data_layer_params/processed_data_folder=toy_text_lm/transformer"]),
    "text classes": ("text2label/toy-labels.py", [
        "--batch_size_per_gpu=16", *_sizes("encoder_params", "encoder_layers")]),
    "n-grams": ("text2label/own-labels.py", [
        "--encoder_params/buckets=512", "--data_layer_params/tokenizer=None",
        "--data_layer_params/src_vocab_file=toy_labels/vocab/source.txt",
        "--data_layer_params/special_tokens_already_in_vocab=False",
        "--data_layer_params/label_file=toy_labels/labels.txt", "--data_layer_params/text_file=toy_labels/train.tsv"]),
    "resnet": ("image2label/toy-resnet8.py", [
        "--batch_size_per_gpu=16", "--lr_policy_params/learning_rate=0.005"]),
    "image convolutions": ("image2label/cifar-nv.py", [
        "--batch_size_per_gpu=8", "--data_layer_params/data_dir=toy_image_data", "--encoder_params/cnn_layers=["
        "[conv2d, {filters: 16, kernel_size: [3, 3], padding: SAME, activation: relu}], "
        "[batch_normalization, {momentum: 0.9, epsilon: 1.0e-4}], [relu, {}], "
        "[max_pooling2d, {pool_size: [3, 3], strides: [2, 2], padding: SAME}]]"]),
    "speech commands": ("speech2text/jasper_commands.py", [
        "--batch_size_per_gpu=8", "--decoder_params/output_dim=4", "--encoder_params/convnet_layers=["
        "{type: conv2d, repeat: 1, kernel_size: [11, 1], stride: [2, 1], num_channels: 16, padding: SAME, "
        "dilation: [1, 1], dropout_keep_prob: 0.8}, "
        "{type: conv2d, repeat: 2, kernel_size: [11, 1], stride: [1, 1], num_channels: 16, padding: SAME, "
        "dilation: [1, 1], dropout_keep_prob: 0.8, residual: True}]",
        "--data_layer_params/num_audio_features=32", "--data_layer_params/audio_length=32",
        "--data_layer_params/sample_freq=8000", "--data_layer_params/num_labels=4",
        "--data_layer_params/class_file=None", "--data_layer_params/dataset_location=toy_speech_data",
        "--data_layer_params/dataset_files=[toy_speech_data/commands.txt]"]),
    "lstm classes": ("transfer/sst-scratch-small.py", [
        "--batch_size_per_gpu=16", "--encoder_params/core_cell_params/num_units=32", "--encoder_params/emb_size=24",
        "--lr_policy_params/warmup_steps=10", "--data_layer_params/data_root=toy_reviews",
        "--data_layer_params/processed_data_folder=toy_reviews/processed"]),
}


class Recorder:
    """A hook that writes the loss of each update to the file ``losses.json`` in the logdir."""

    def __init__(self, train_model: Any = None, eval_model: Any = None) -> None:
        self._losses: list[float] = []

    def begin(self, trainer: Any) -> None:
        """Does nothing."""

    def after_step(self, trainer: Any, results: dict[str, Any]) -> None:
        """Appends the loss of the update: the shortest decimal number that has the bits of the float32."""
        self._losses.append(float(str(results["loss"].numpy())))

    def end(self, trainer: Any) -> None:
        """Writes the losses."""
        Path(trainer.model.params["logdir"], LOSSES).write_text(json.dumps(self._losses), encoding="utf-8")


def environment() -> dict[str, Any]:
    """Returns what the bits of a loss depend on besides the code."""
    import tensorflow as tf

    from open_seq2seq.utils.machine import cpu_name, onednn_setting, speed_flags

    threads = tf.config.threading.get_intra_op_parallelism_threads() or os.environ["TF_NUM_INTRAOP_THREADS"]
    return {"processor": " ".join([cpu_name(), *speed_flags()]), "oneDNN": onednn_setting(), "threads": int(threads),
            "TensorFlow": tf.__version__}


def make_toy_data() -> None:
    """Writes the data of all ``RECIPES`` to the current folder."""
    from scripts import create_toy_data, create_toy_images, create_toy_speech, create_toy_text

    for task in ("reversal", "labels", "sources"):
        create_toy_data.main([f"--task={task}", "--train_size=400", "--dev_size=9", "--test_size=9", "--max_length=12"])
    create_toy_speech.main(["--train_size=60", "--dev_size=2", "--test_size=2", "--sample_freq=8000", "--max_words=2"])
    create_toy_text.main(["--lines=200"])
    create_toy_images.main(["--train_size=100", "--dev_size=8"])
    speech = Path("toy_speech_data")
    recordings = [line.split(",") for line in (speech / "train.csv").read_text(encoding="utf-8").splitlines()[1:]]
    (speech / "commands.txt").write_text("".join(f"{len(text) % 4},{file}\n" for file, _, text in recordings),
                                         encoding="utf-8")
    reviews = Path("toy_reviews")
    reviews.mkdir()
    for split in ("train", "dev"):
        lines = Path("toy_labels", f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        (reviews / f"{split}.tsv").write_text("".join(
            f"{int(line.startswith('alpha'))}\t{line.partition(chr(9))[2]}\n" for line in lines), encoding="utf-8")


def losses_of(recipe: str, dtype: str) -> list[float]:
    """Trains a recipe and returns the loss of each update.

    Raises:
      RuntimeError: the training failed; the message is what it printed.
    """
    from open_seq2seq.cli import main

    config, values = RECIPES.get(recipe, (recipe, []))
    config_file = ROOT / ("example_configs" if recipe in RECIPES else "") / config
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as logdir:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main([f"--config_file={config_file}", f"--logdir={logdir}/run", f"--dtype={dtype}", *_RUN, *values,
                         f"--hooks=['{Path(__file__).resolve()}:Recorder']"])
        if code:
            raise RuntimeError(f"{recipe}, {dtype}: the training failed.\n{printed.getvalue()}")
        return json.loads(Path(logdir, "run", LOSSES).read_text(encoding="utf-8"))


@contextlib.contextmanager
def _toy_data(recipes: Sequence[str]) -> Iterator[None]:
    """Changes to a temporary folder with the toy data, if one of the recipes needs it."""
    if not set(recipes) & set(RECIPES):
        yield
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with contextlib.redirect_stdout(io.StringIO()):
            make_toy_data()
        yield


def write(path: Path, losses: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Writes losses by dtype and recipe, one recipe per line."""
    blocks = [f'  "{dtype}": {{\n' + ",\n".join(f"    {json.dumps(recipe)}: {json.dumps(values)}"
                                                 for recipe, values in of_dtype.items()) + "\n  }"
              for dtype, of_dtype in losses.items()]
    lines = [f'"environment": {json.dumps(environment())}', '"losses": {\n' + ",\n".join(blocks) + "\n}"]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, list[float]]]]:
    """Returns (the environment in which a file was written, its losses by dtype and recipe)."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["environment"], content["losses"]


def difference(losses: Sequence[float], reference: Sequence[float], tolerance: tuple[float, float]) -> str:
    """Says from which update on losses differ from those of the file, or returns "" if they agree.

    Args:
      losses: the loss of each update.
      reference: the same of the file.
      tolerance: allowed relative differences, of the first ``EARLY`` updates and of later ones.
    """
    if len(losses) != len(reference):
        return f"{len(losses)} updates instead of {len(reference)}"
    relative = [0.0 if loss == expected else abs(loss - expected) / abs(expected)
                for loss, expected in zip(losses, reference, strict=True)]
    for number, value in enumerate(relative):
        if not value <= tolerance[number >= EARLY]:  # true for NaN, too
            return (f"the loss of update {number + 1} is {losses[number]} instead of {reference[number]}; the largest "
                    f"relative difference of all updates is {max(relative):.1e}")
    return ""


def compare(path: Path, recipes: Sequence[str], dtypes: Sequence[str], may_round: bool = False) -> list[str]:
    """Trains recipes, prints a line for each, and returns the lines of those whose losses differ from the file's.

    Args:
      path: the file.
      recipes: the recipes; all in the file if empty.
      dtypes: the dtypes.
      may_round: whether losses may differ by rounding even in the environment in which the file was written: processors
        of the same name can have caches of different sizes, by which libraries choose the order of sums.
    """
    written_in, reference = read(path)
    here = environment()
    exact = written_in == here and not may_round
    print("The losses must have the same bits." if exact else
          f"The losses may differ by rounding: the file was written in {written_in}, and this is {here}.")
    failures = []
    for recipe, dtype, losses in trained(recipes or list(reference[dtypes[0]]), dtypes):
        how = difference(losses, reference[dtype].get(recipe, []), (0.0, 0.0) if exact else TOLERANCES[dtype])
        line = f"{recipe}, {dtype}: {how or 'as in the file'}"
        print(line, flush=True)
        failures += [line] * bool(how)
    return failures


def trained(recipes: Sequence[str], dtypes: Sequence[str]) -> Iterator[tuple[str, str, list[float]]]:
    """Trains each recipe in each dtype; yields (recipe, dtype, losses)."""
    with _toy_data(recipes):
        for dtype in dtypes:
            for recipe in recipes:
                yield recipe, dtype, losses_of(recipe, dtype)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns 1 if losses differ from those of the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE", help="file to write")
    what.add_argument("--compare", type=Path, metavar="FILE", help="file to compare with")
    parser.add_argument("--recipes", nargs="+", default=[], help="names in RECIPES, or config files: example_configs/…")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--may_round", action="store_true",
                        help="allow differences by rounding, also on a processor of the name in the file")
    args = parser.parse_args(argv)
    if args.compare:
        return int(bool(compare(args.compare.resolve(), args.recipes, args.dtypes, args.may_round)))
    path, losses = args.write.resolve(), dict[str, dict[str, list[float]]]()
    for recipe, dtype, values in trained(args.recipes or list(RECIPES), args.dtypes):
        losses.setdefault(dtype, {})[recipe] = values
        print(f"{recipe}, {dtype}: {values[0]} … {values[-1]}", flush=True)
    write(path, losses)
    return 0


if __name__ == "__main__":
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
