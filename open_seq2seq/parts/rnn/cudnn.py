"""The recurrent kernels of NVIDIA's cuDNN, with the same weights as the loop in ``recurrence``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.rnn.cells import Cell

# For each gate in cuDNN's order, its index in the order of ``cells``. cuDNN's order is input, forget, candidate, output
# for an LSTM, and reset, update, candidate for a GRU.
GATE_ORDER = {"lstm": (0, 1, 3, 2), "gru": (1, 0, 2)}


def cudnn_serves(cell: Cell) -> bool:
    """Returns whether cuDNN can compute a cell.

    This requires that cuDNN supports the cell type, that there is a GPU, and that the code is not traced for XLA.
    """
    return cell.name in GATE_ORDER and not current_pass().for_xla and bool(tf.config.list_logical_devices("GPU"))


def packed_weights(direction: Any, dtype: tf.DType) -> tf.Tensor:
    """Returns the weights ``[number of weights]`` in cuDNN's order: all matrices, transposed, gate by gate; all biases.

    cuDNN has an input bias and a recurrent bias for each gate. The bias of the ``Direction`` is the input bias; the
    recurrent bias is 0, except for a GRU's candidate.

    Args:
      direction: the ``Direction`` that has the weights.
      dtype: float32 or float16.
    """
    name, hidden = direction.cell.name, direction.hidden_size
    order = GATE_ORDER[name]

    def by_gate(tensor: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(tensor, direction.cell.gates, axis=-1)
        return [parts[gate] for gate in order]

    matrices = [matrix for kernel in (direction.input_kernel(dtype), direction.step_weights(dtype)[0])
                for matrix in by_gate(kernel)]
    biases = [tf.cast(bias, dtype) for bias in by_gate(tf.convert_to_tensor(direction.bias))]
    recurrent = [tf.zeros([hidden], dtype) for _ in order]
    if name == "gru":
        recurrent[-1] = tf.cast(direction.recurrent_bias, dtype)
    return tf.concat([*(tf.reshape(tf.transpose(matrix), [-1]) for matrix in matrices), *biases, *recurrent], 0)


def cudnn_outputs(direction: Any, x: tf.Tensor, lengths: tf.Tensor, states: Sequence[tf.Tensor]) -> tf.Tensor:
    """Runs a layer in cuDNN; returns the outputs ``[time, batch, hidden]`` in the dtype of ``x``.

    Args:
      direction: the ``Direction`` that has the weights.
      x: ``[time, batch, input]``; bfloat16 is computed in float32, because older versions of TensorFlow have no kernel
        for it.
      lengths: ``[batch]`` in steps; for empty rows, one step is computed, whose output the caller masks.
      states: initial states, ``[batch, hidden]`` FP32 each, the output first.
    """
    dtype = tf.float32 if x.dtype == tf.bfloat16 else x.dtype
    shape = tf.shape(x)
    steps, rows = shape[0], shape[1]
    # The kernel rejects inputs without steps or examples, so one step or example of zeros is added to such inputs.
    more_rows = tf.maximum(1 - rows, 0)
    x_padded = tf.pad(tf.cast(x, dtype), [[0, tf.maximum(1 - steps, 0)], [0, more_rows], [0, 0]])
    lengths = tf.maximum(tf.pad(lengths, [[0, more_rows]]), 1)
    first = [tf.pad(tf.cast(state, dtype), [[0, more_rows], [0, 0]])[tf.newaxis] for state in states]
    inner = first[1] if len(first) > 1 else tf.zeros([], dtype)
    # The operation has a gradient only with is_training=True; it applies no dropout.
    outputs = tf.raw_ops.CudnnRNNV3(
        input=x_padded, input_h=first[0], input_c=inner, params=packed_weights(direction, dtype),
        sequence_lengths=lengths, rnn_mode=direction.cell.name, is_training=True, time_major=True)
    output = tf.cast(outputs.output[:steps, :rows], x.dtype)
    return tf.ensure_shape(output, [*x.shape[:2], direction.hidden_size])
