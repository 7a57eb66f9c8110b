"""Variables get a checkpoint's values by name and shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.checkpoints import assign_matching, assign_strictly
from open_seq2seq.utils.errors import CheckpointError

PATH = Path("run/model.ckpt-5")


def variables() -> dict[str, tf.Variable]:
    return {"encoder/kernel": tf.Variable(tf.zeros([2, 3])), "encoder/embedding/table": tf.Variable(tf.zeros([32, 4])),
            "updates": tf.Variable(0, dtype=tf.int64)}


def values(**changed: np.ndarray) -> dict[str, np.ndarray]:
    return {"encoder/kernel": np.ones([2, 3], np.float32), "encoder/embedding/table": np.ones([32, 4], np.float32),
            "updates": np.array(2 ** 40, np.int64), **changed}


def test_all_fit():
    here = variables()
    assign_strictly(here, values(), PATH)
    for name, value in values().items():
        np.testing.assert_array_equal(here[name], value)


def test_report_of_what_does_not_fit():
    here, there = variables(), values(extra=np.ones(1, np.float32), updates=np.zeros([2], np.int64))
    del there["encoder/kernel"]
    report = assign_matching(here, there)
    assert report.assigned == ["encoder/embedding/table"]
    assert report.missing == ["encoder/kernel"] and report.unused == ["extra"]
    assert report.shapes == {"updates": ((), (2,))}
    lines = "\n".join(report.lines())
    assert all(name in lines for name in ("encoder/kernel", "extra", "updates"))
    assert float(tf.reduce_sum(here["encoder/kernel"])) == 0
    assert float(tf.reduce_sum(here["encoder/embedding/table"])) == 128


def test_other_number_type_is_cast():
    here = variables()
    assign_matching(here, values(**{"encoder/kernel": np.full([2, 3], 1.5, np.float16)}))
    np.testing.assert_array_equal(here["encoder/kernel"], np.full([2, 3], 1.5))


def test_strict_names_the_first_and_changes_nothing():
    here = variables()
    there = {f"other_{i}": np.ones(1, np.float32) for i in range(5)}
    there["encoder/kernel"] = np.ones([2, 3], np.float32)
    with pytest.raises(CheckpointError, match=r"encoder/embedding/table: not in the checkpoint.*; and 4 more\..*"
                                              r"run/model.ckpt-5/config.yaml"):
        assign_strictly(here, there, PATH)
    assert float(tf.reduce_sum(here["encoder/kernel"])) == 0


def test_another_vocabulary_is_said_to_be_one():
    there = values(**{"encoder/embedding/table": np.ones([8, 4], np.float32)})
    with pytest.raises(CheckpointError, match="32 rows in the model but 8 in the checkpoint: the vocabularies differ"):
        assign_strictly(variables(), there, PATH)
