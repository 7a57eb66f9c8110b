"""A model of one number, its data and its writer, to send many examples through inference; prints its memory there."""

from __future__ import annotations

import os
import signal

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.losses import LossTerm
from open_seq2seq.models import Model
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.utils.errors import DataError


class Numbers(DataLayer):
    """Example i is a row of i % 7 + 1 times the number i."""

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(), "size": Param(int, 64, "How many.", "examples"),
                "bad": Param(int, -1, "Number of an example that cannot be used.")}

    @property
    def num_examples(self):
        return self.params["size"]

    @property
    def lengths(self):
        return np.arange(self.num_examples) % 7 + 1

    def make_batch(self, examples):
        if self.params["bad"] in examples:
            raise DataError(f"Example {self.params['bad']} cannot be used.")
        lengths = (np.asarray(examples) % 7 + 1).astype(np.int32)
        held = np.arange(lengths.max()) < lengths[:, np.newaxis]
        values = np.where(held, np.asarray(examples)[:, np.newaxis], 0).astype(np.float32)
        return {"source_tensors": [values, lengths], "ids": np.asarray(examples, np.int64)}

    @property
    def input_signature(self):
        return {"source_tensors": [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.int32)],
                "ids": tf.TensorSpec([None], tf.int64)}


class Lines(ResultWriter):
    """A line for each example; says how much memory is resident after some of them, and may end by a signal."""

    def __init__(self, output_file, looks, dies_at):
        super().__init__()
        self._name, self._looks, self._dies_at, self._count = output_file, looks, dies_at, 0

    def begin(self):
        self._file = self.outputs.open(self._name)

    def write(self, example, result):
        self._file.write(f"{example} {result:.0f}\n")
        self._count += 1
        if self._count in self._looks:
            with open("/proc/self/status", encoding="utf-8") as file:
                held = {line.split(":")[0]: int(line.split()[1]) for line in file
                        if line.startswith(("VmRSS", "VmHWM"))}
            print(f"after {self._count}: {held['VmRSS']} kB resident, {held['VmHWM']} kB at most", flush=True)
        if self._count == self._dies_at:
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)


class Scaled(Model):
    """The sum of an example's row, times a weight."""

    @staticmethod
    def get_optional_params():
        return {**Model.get_optional_params(), "looks": Param(list, [], "After how many results memory is told."),
                "dies_at": Param(int, 0, "After how many the process kills itself.")}

    def __init__(self, params, mode="train"):
        super().__init__(params, mode)
        self.scale = self.weight([], "ones")

    def _sums(self, batch):
        return tf.reduce_sum(batch["source_tensors"][0], axis=1) * self.scale

    def loss_terms(self, batch, training):
        sums = self._sums(batch)
        return [LossTerm(0.0 * tf.reduce_sum(sums), tf.cast(tf.size(sums), tf.float32))], {"outputs": [sums]}

    def report_sample(self, batch, outputs, reporter):
        reporter.scalar("first_sum", outputs[0][0])
        reporter.sound("sums", outputs[0] / 1000, 8000)
        with reporter.file("sums", ".npy") as path:
            np.save(path, outputs[0])

    def predict(self, batch):
        return [self._sums(batch)]

    def infer(self, input_values, output_values):
        return list(zip(input_values["ids"].tolist(), output_values[0].tolist(), strict=True))

    def open_results(self, output_file):
        return Lines(output_file, self.params["looks"], self.params["dies_at"])


base_model = Scaled
base_params = {
    "logdir": os.path.join(os.path.dirname(os.path.abspath(__file__)), "run"), "batch_size_per_gpu": 32,
    "max_steps": 1, "random_seed": 1, "save_checkpoint_steps": 1, "print_loss_steps": None, "optimizer": "SGD",
    "lr_policy": "fixed_lr", "lr_policy_params": {"learning_rate": 0.0}, "data_layer": Numbers,
}
