"""The recurrent kernels of NVIDIA's cuDNN, with the weights that the loop has."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.cells import Cell
from open_seq2seq.parts.xla import is_for_xla

# The order of our gates in cuDNN. LSTM: input, forget, cell, output. GRU: reset, update, candidate.
GATE_ORDER = {"lstm": (0, 1, 3, 2), "gru": (1, 0, 2)}


def cudnn_serves(cell: Cell) -> bool:
    """Whether cuDNN can be used: it has this cell, there is a GPU, and XLA does not compile."""
    return cell.name in GATE_ORDER and not is_for_xla() and bool(tf.config.list_logical_devices("GPU"))


def packed_weights(direction: Any, dtype: tf.DType) -> tf.Tensor:
    """Returns the weights in the layout of cuDNN: all matrices gate by gate and transposed, then all biases.

    cuDNN has two biases for each gate. Ours is that of the input; the recurrent one is 0 except for a GRU's candidate.

    Args:
      dtype: float32 or float16.
    """
    name, hidden = direction.cell.name, direction.hidden_size
    order = GATE_ORDER[name]

    def by_gate(tensor: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(tensor, direction.cell.gates, axis=-1)
        return [parts[gate] for gate in order]

    matrices = [matrix for kernel in (direction.kernel, direction.recurrent_kernel)
                for matrix in by_gate(cast_weight(kernel, dtype))]
    biases = [tf.cast(bias, dtype) for bias in by_gate(tf.convert_to_tensor(direction.bias))]
    recurrent = [tf.zeros([hidden], dtype) for _ in order]
    if name == "gru":
        recurrent[-1] = tf.cast(direction.recurrent_bias, dtype)
    return tf.concat([*(tf.reshape(tf.transpose(matrix), [-1]) for matrix in matrices), *biases, *recurrent], 0)


def cudnn_outputs(direction: Any, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the outputs ``[time, batch, hidden]`` from initial states of zero.

    Args:
      x: ``[time, batch, input]``; bfloat16, which the kernel lacks in older versions of TensorFlow, is computed in
        float32.
      lengths: ``[batch]`` in steps; empty rows get one step, whose output the caller masks.
    """
    dtype = tf.float32 if x.dtype == tf.bfloat16 else x.dtype
    shape = tf.shape(x)
    steps, rows = shape[0], shape[1]
    # The kernel refuses tensors without steps or examples, so these get one of zeros.
    more_rows = tf.maximum(1 - rows, 0)
    x_padded = tf.pad(tf.cast(x, dtype), [[0, tf.maximum(1 - steps, 0)], [0, more_rows], [0, 0]])
    lengths = tf.maximum(tf.pad(lengths, [[0, more_rows]]), 1)
    state = tf.zeros([1, rows + more_rows, direction.hidden_size], dtype)
    inner = state if direction.cell.name == "lstm" else tf.zeros([], dtype)
    outputs = tf.raw_ops.CudnnRNNV3(
        input=x_padded, input_h=state, input_c=inner, params=packed_weights(direction, dtype),
        sequence_lengths=lengths, rnn_mode=direction.cell.name, is_training=True, time_major=True)
    output = tf.cast(outputs.output[:steps, :rows], x.dtype)
    return tf.ensure_shape(output, [*x.shape[:2], direction.hidden_size])
