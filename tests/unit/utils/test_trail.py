from __future__ import annotations

import numpy as np

from open_seq2seq.utils.trail import Trail


def test_the_newest_batch_is_named():
    trail = Trail()
    assert trail.last == "" and trail.count == 0
    for step in (1, 2, 3):
        trail.note("step", step, [np.array([10 * step, -1]), np.array([7])], lambda example: f"a.txt:{example + 1}")
    assert trail.last == "step 3, on examples 30, 7 (the first is a.txt:31)" and trail.count == 3


def test_long_batches_are_cut_and_other_ids_are_shown_as_they_are():
    trail = Trail()
    trail.note("eval batch", 4, [np.arange(11)])
    assert trail.last == "eval batch 4, on examples 0, 1, 2, 3, 4, 5, 6, 7 and 3 more"
    trail.note("eval batch", 5, [np.array(["speaker/a", "speaker/b"])], lambda example: 1 / 0)
    assert trail.last == "eval batch 5, on examples speaker/a, speaker/b"
    trail.note("eval batch", 6, [np.array([-1, -1])], lambda example: f"Example {example}")
    assert trail.last == "eval batch 6"
