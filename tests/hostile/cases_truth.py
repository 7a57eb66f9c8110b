"""Checkpoints must match what the run used: changes of the checkpoint's files, the config and the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.hostile.case import (
    CHECK,
    CONFIG,
    EVALUATE,
    EVALUATE_BEST,
    INFER,
    INFER_TEXT,
    RESUME,
    Case,
    Expectation,
    Fault,
    Place,
    Refused,
    Said,
    Same,
)
from tests.hostile.faults import (
    after,
    append,
    both,
    copy,
    delete,
    edit,
    flip_in_the_middle,
    rename,
    rewrite,
    touch,
    truncate,
    write,
)
from tests.unit.checkpoints.resealing import reseal

NEWEST, BEFORE = "run/model.ckpt-60", "run/model.ckpt-40"
LOAD_MODEL = (CONFIG, "--mode=train_eval", "--logdir=new", "--max_steps=20", "--load_model=run")
CHECK_RESUMING = (*CHECK, "--continue_learning")
MODES = {"training goes on": RESUME, "evaluation": EVALUATE, "inference": INFER, "inference of files": INFER_TEXT,
         "load_model": LOAD_MODEL}
FILES = ("weights.safetensors", "optimizer.safetensors", "config.yaml", "assets/src_vocab_file", "state.json")
NO_LONGER_FITS, HAS_CHANGED = "does not fit the checkpoint", "has changed since model.ckpt-60"


def resealed(change: Callable[[dict[str, Any]], object] | None = None, folder: str = NEWEST) -> Fault:
    """Changes a checkpoint's state and updates the checksums to match all its changed files."""
    return lambda place: reseal(place / folder, change)


def with_tensor(file: str, value: float) -> Fault:
    """Replaces the last value of the last float32 tensor in a file."""
    def fault(place: Place) -> None:
        path = place / NEWEST / file
        tensors = load_file(path)
        name = max(name for name, tensor in tensors.items() if tensor.dtype == np.float32 and tensor.size)
        tensors[name] = tensors[name].copy()
        tensors[name].reshape(-1)[-1] = value
        save_file(tensors, path)

    return both(fault, resealed())


def lines(name: str, change: Callable[[list[str]], list[str]]) -> Fault:
    """Changes the lines of a text file."""
    return rewrite(name, lambda content: "".join(change(content.decode().splitlines(keepends=True))).encode())


def of_another_recording(place: Place) -> None:
    """Replaces a recording by other audio of the same length."""
    path = place / "wav/train-0000.wav"
    content = path.read_bytes()
    samples = np.frombuffer(content[44:len(content) // 2 * 2], np.int16)
    path.write_bytes(content[:44] + samples[::-1].tobytes())


def expected(mode: str, words: str) -> Expectation:
    """Returns the expectation for a damaged checkpoint: the previous one is used and reported, except by load_model."""
    if mode == "load_model":
        return Refused(words)
    before = ("Trying the previous checkpoint", "model.ckpt-40")
    return Same(words, *before) if mode == "training goes on" else Said(words, *before)


def damaged_files() -> Iterator[Case]:
    damages = {"flipped": flip_in_the_middle, "truncated": truncate, "missing": delete}
    for file in FILES:
        for mode, command in MODES.items():
            for damage, fault in damages.items():
                yield Case(f"{file} of the newest checkpoint is {damage}: {mode}", command,
                           expected(mode, "model.ckpt-60 is damaged"), fault(f"{NEWEST}/{file}"))
            alike = file in ("config.yaml", "assets/src_vocab_file")
            yield Case(f"{file} of the newest checkpoint is that of another step: {mode}", command,
                       Same() if alike else expected(mode, "model.ckpt-60 is damaged"),
                       both(delete(f"{NEWEST}/{file}"), copy(f"{BEFORE}/{file}", f"{NEWEST}/{file}")))


def other_values() -> Iterator[Case]:
    for mode, command in MODES.items():
        for value in (np.nan, np.inf):
            yield Case(f"a weight of the newest checkpoint is {value}: {mode}", command,
                       Refused("contains inf or NaN"), with_tensor(FILES[0], value))
        yield Case(f"the newest checkpoint says it is of another step: {mode}", command,
                   expected(mode, "its state.json gives step 50"), resealed(lambda state: state.update(step=50)))
    for mode in ("training goes on", "evaluation", "inference"):
        yield Case(f"the vocabulary in the newest checkpoint is replaced and resealed: {mode}", MODES[mode],
                   Refused("vocab.txt is not the file that"),
                   both(lines(f"{NEWEST}/assets/src_vocab_file", lambda rows: rows[::-1]), resealed()))
        yield Case(f"num_heads in the newest checkpoint's config is replaced and resealed: {mode}", MODES[mode],
                   Refused(NO_LONGER_FITS, "num_heads"),
                   both(edit(f"{NEWEST}/config.yaml", "num_heads: 2", "num_heads: 4"), resealed()))
    yield Case("a slot of the optimizer is no number", RESUME, Refused("contains inf or NaN"),
               with_tensor(FILES[1], np.nan))
    yield Case("the newest checkpoint is renamed to a later step", RESUME, Same("its state.json gives step 60"),
               rename(NEWEST, "run/model.ckpt-900"))
    yield Case("the best model's vocabulary is damaged", EVALUATE_BEST, Said("is damaged"), _damage_best)


def _damage_best(place: Place) -> None:
    best = max((place / "run/best_models").iterdir(), key=lambda path: int(path.name.rpartition("-")[2]))
    append(f"run/best_models/{best.name}/assets/src_vocab_file", "x\n")(place)


def odd_names() -> Iterator[Case]:
    copied = copy(BEFORE, "run/model.ckpt-70")
    for mode in ("training goes on", "evaluation", "inference", "inference of files"):
        for what, words, fault in (
                ("an older checkpoint stands under the newest one's name", "its state.json gives step 40",
                 both(delete(NEWEST), copy(BEFORE, NEWEST))),
                ("an older checkpoint is copied to a later name", "its state.json gives step 40",
                 copy(BEFORE, "run/model.ckpt-900")),
                ("the state of a later checkpoint is missing", "state.json",
                 both(copied, delete("run/model.ckpt-70/state.json")))):
            expect = Same(words) if mode == "training goes on" else Said(words)
            yield Case(f"{what}: {mode}", MODES[mode], expect, fault)


def odd_best_models() -> Iterator[Case]:
    states = {"a list": "[]", "nothing": "", "no metrics": '{"format": 1}', "a string": '"x"',
              "deep nesting": "[" * 100_000, "metrics that are a list": '{"format": 1, "metrics": [1]}',
              "a number of 5,000 digits": '{"step": ' + "1" * 5000 + "}"}
    for what, state in states.items():
        yield Case(f"the state of a best model is {what}", RESUME, Same(),
                   write("run/best_models/val_loss=0.0100-step-7/state.json", state))
    for what, change in {"a huge number": {"val_loss": 10**400}, "a text": {"val_loss": "low"}, "absent": None}.items():
        yield Case(f"the metric of a best model is {what}, with checksums that fit", RESUME, Same(),
                   lambda place, change=change: _reseal_best(place, change))
    yield Case("a folder among the best models has no number in its name", RESUME, Same(),
               write("run/best_models/val_loss=low-step-7/notes.txt", "mine\n"))


def _reseal_best(place: Place, metrics: dict[str, Any] | None) -> None:
    best = min(path.name for path in (place / "run/best_models").iterdir())
    copy(f"run/best_models/{best}", "run/best_models/val_loss=0.0100-step-7")(place)
    resealed(lambda state: state.update(metrics=metrics, step=7), "run/best_models/val_loss=0.0100-step-7")(place)


def averages() -> Iterator[Case]:
    average = (*RESUME, "--average_checkpoints=3", "--num_checkpoints=4")
    for file in FILES:
        yield Case(f"one of the checkpoints to average has a damaged {file}", average,
                   Said("It is left out of the average", "Averaged the last 2 checkpoints"),
                   flip_in_the_middle(f"{BEFORE}/{file}"))


REFUSED = {
    "text": {"encoder_params/num_heads": "4", "decoder_params/num_heads": "1", "data_layer_params/delimiter": "b",
             "encoder_params/norm_params": "{type: layernorm_L1}", "decoder_params/EOS_ID": "2",
             "data_layer_params/use_start_token": "True"},
    "speech": {"data_layer_params/window_size": "0.03", "data_layer_params/window_stride": "0.012",
               "data_layer_params/input_type": "mfcc", "data_layer_params/backend": "psf",
               "data_layer_params/num_fft": "512", "data_layer_params/window": "hamming",
               "data_layer_params/gain": "1.0", "data_layer_params/norm_per_feature": "False",
               "encoder_params/activation_fn": "tanh", "encoder_params/bn_epsilon": "0.1"}}
SAID = {"batch_size_per_gpu": "8", "optimizer_params/beta2": "0.9", "lr_policy_params/learning_rate": "0.5",
        "encoder_params/attention_dropout": "0.3", "decoder_params/relu_dropout": "0.0", "iter_size": "2",
        "loss_params/label_smoothing": "0.2", "data_layer_params/max_length": "16",
        "data_layer_params/shuffle": "False",
        "max_grad_norm": "1.0", "dtype": "mixed_bfloat16", "optimizer": "Adam",
        "data_layer_params/length_buckets": "False"}


def other_configs() -> Iterator[Case]:
    for task, values in REFUSED.items():
        for name, value in values.items():
            for mode in ("training goes on", "evaluation", "inference"):
                yield Case(f"{name} is {value}, for {task}: {mode}", (*MODES[mode], f"--{name}={value}"),
                           Refused(NO_LONGER_FITS, f"'{name}"), task=task)
    meant = (*EVALUATE, "--encoder_params/num_heads=4", "--no_dir_check")
    yield Case("num_heads is another one, and that is meant", meant, Said(f"WARNING: The config {NO_LONGER_FITS}"))
    for name, value in SAID.items():
        yield Case(f"training goes on with another {name}", (*RESUME, f"--{name}={value}"),
                   Said(f"The config {HAS_CHANGED}: '{name}'"))
    yield Case("training goes on with an optimizer that keeps something else",
               (*RESUME, "--optimizer=NovoGrad"), Refused("the state of another optimizer"))


def other_data() -> Iterator[Case]:
    changes: dict[str, Callable[[list[str]], list[str]]] = {
        "reordered": lambda rows: rows[::-1], "longer by a line": lambda rows: [*rows, rows[0]],
        "changed in one line": lambda rows: ["a b c\n", *rows[1:]]}
    for section, name in (("training", "train"), ("evaluation", "dev")):
        for what, change in changes.items():
            both_sides = both(lines(f"{name}.src", change), lines(f"{name}.tgt", change))
            for command in (RESUME, CHECK_RESUMING):
                if section == "training" or command is RESUME:
                    yield Case(f"the {section} text is {what}: {'--check' if '--check' in command else 'resumed'}",
                               command, Said(f"The {section} data {HAS_CHANGED}", f"{name}.src differs"),
                               both(both_sides, touch(f"{name}.src"), touch(f"{name}.tgt")))
    for what, fault in (("touched", touch("train.src")),
                        ("copied", both(rename("train.src", "t"), copy("t", "train.src")))):
        yield Case(f"the training text is {what}", RESUME, Same(), fault)
    swapped = lines("train.csv", lambda rows: [rows[0], rows[2], rows[1], *rows[3:]])
    yield Case("the list of recordings is reordered", RESUME, Said(f"The training data {HAS_CHANGED}", "train.csv"),
               swapped, task="speech")
    yield Case("a recording is another one of the same length", RESUME,
               Said(f"The training data {HAS_CHANGED}", "the content of some of its files"), of_another_recording,
               task="speech")
    yield Case("a transcript of the evaluation is another one", RESUME,
               Said(f"The evaluation data {HAS_CHANGED}", "dev.csv"),
               lines("dev.csv", lambda rows: [rows[0], *(row.rstrip("\n")[:-1] + "\n" for row in rows[1:])]),
               task="speech")


def meanwhile() -> Iterator[Case]:
    train = (CONFIG, "--mode=train_eval", "--logdir=new", "--max_steps=40", "--eval_steps=20",
             "--save_checkpoint_steps=20")
    started = "Starting training from scratch"
    for name in ("dev.tgt", "dev.src"):
        for what, fault in (("replaced", write(name, "f f f\n" * 20)), ("deleted", delete(name))):
            yield Case(f"{name} is {what} while training goes on", train,
                       Refused(f"{name} has changed since this run read it"), meanwhile=after(started, fault))
    for what, fault in (("changed", write("vocab.txt", "f\ne\nd\nc\nb\na\n")), ("been removed", delete("vocab.txt"))):
        yield Case(f"the vocabulary has {what} while training goes on", train,
                   Said(f"vocab.txt has {what} since this run read it"), meanwhile=after(started, fault))


CASES = [*damaged_files(), *other_values(), *odd_names(), *odd_best_models(), *averages(), *other_configs(),
         *other_data(), *meanwhile()]
