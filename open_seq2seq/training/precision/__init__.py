"""Reports on what half precision would lose in a trained model, and choice of what is computed in bfloat16."""

from open_seq2seq.training.precision.probe import Kind, PrecisionProbe, pick_batches
from open_seq2seq.training.precision.ranges import Conversion, NumberRange
from open_seq2seq.training.precision.report import conversions_of, format_report

__all__ = ["Conversion", "Kind", "NumberRange", "PrecisionProbe", "conversions_of", "format_report", "pick_batches"]
