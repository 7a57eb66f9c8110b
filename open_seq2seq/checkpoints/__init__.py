"""Checkpoints: folders of safetensors and JSON files with checksums, written under a temporary name and renamed."""

from open_seq2seq.checkpoints.reading import (
    Checkpoint,
    assign_matching,
    assign_strictly,
    first_whole,
    load_checkpoint,
    match,
    verified_assets,
)
from open_seq2seq.checkpoints.state import check_resumable, files_of, read_state
from open_seq2seq.checkpoints.writing import (
    Checkpointer,
    Snapshot,
    average_checkpoints,
    note_metrics,
    of_one_stretch,
    write_snapshot,
)

__all__ = ["Checkpoint", "Checkpointer", "Snapshot", "assign_matching", "assign_strictly", "average_checkpoints",
           "check_resumable", "files_of", "first_whole", "load_checkpoint", "match", "note_metrics", "of_one_stretch",
           "read_state", "verified_assets", "write_snapshot"]
