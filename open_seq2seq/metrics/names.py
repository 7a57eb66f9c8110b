"""Names of metrics for people: what evaluation and training return, and what reports and model cards show."""

from __future__ import annotations

from typing import NamedTuple


class MetricName(NamedTuple):
    """How a metric is shown.

    Attributes:
      title: the name, with the unit in brackets.
      factor: what values are multiplied by; 100 for shares that are shown in percent.
      hub_type: the metric's name on the Hugging Face Hub; "" if it has none.
      rises: whether higher values are better.
    """

    title: str
    factor: float = 1.0
    hub_type: str = ""
    rises: bool = False


_NAMES = {
    "train_loss": MetricName("Training loss"),
    "val_loss": MetricName("Validation loss"),
    "eval_loss": MetricName("Evaluation loss"),
    "Eval_BLEU_Score": MetricName("BLEU", 1.0, "bleu", True),
    "Eval_chrF_Score": MetricName("chrF", 1.0, "chrf", True),
    "Eval WER": MetricName("Word error (%)", 100.0, "wer"),
    "Eval CER": MetricName("Character error (%)", 100.0, "cer"),
    "Eval top-1": MetricName("Accuracy (%)", 100.0, "accuracy", True),
    "Eval top-5": MetricName("Top-5 accuracy (%)", 100.0, "", True),
    "Eval_accuracy": MetricName("Accuracy (%)", 100.0, "accuracy", True),
    "Eval_precision": MetricName("Precision (%)", 100.0, "precision", True),
    "Eval_recall": MetricName("Recall (%)", 100.0, "recall", True),
    "Eval_F1": MetricName("F1 (%)", 100.0, "f1", True),
    "perplexity": MetricName("Perplexity", 1.0, "perplexity"),
    "word_perplexity": MetricName("Perplexity per word"),
    "bits_per_byte": MetricName("Bits per byte"),
    "Eval character error": MetricName("Character error heard (%)", 100.0, "cer"),
    "Eval word error": MetricName("Word error heard (%)", 100.0, "wer"),
    "Eval mel cepstral distortion": MetricName("Mel cepstral distortion (dB)"),
    "Eval F0 error": MetricName("Error of F0 (Hz)"),
    "Eval F0 error in cents": MetricName("Error of F0 (cents)"),
    "Eval voicing error": MetricName("Voicing error (%)", 100.0),
    "Eval diagonality": MetricName("Diagonality of the attention", rises=True),
    "Eval coverage": MetricName("Coverage of the text", rises=True),
    "Eval monotonicity": MetricName("Monotonicity of the attention", rises=True),
    "global_gradient_norm": MetricName("Norm of the gradient"),
    "global_clipped_gradient_norm": MetricName("Norm of the gradient, clipped"),
}
LOSSES = ("train_loss", "val_loss", "eval_loss")
"""Metrics that every task has, in the order in which reports show them."""


def metric_name(name: str) -> MetricName:
    """Returns how a metric is shown.

    Metrics of a language or of other sounds are called as those that their names begin with: ``Eval_BLEU_Score_de``
    is "BLEU, de". Any other name is shown without ``Eval``, with spaces and a capital letter.
    """
    base = max((one for one in _NAMES if name == one or name.startswith((f"{one}_", f"{one} "))), key=len, default="")
    if not base:
        words = name.removeprefix("Eval").replace("_", " ").strip() or name
        return MetricName(words[:1].upper() + words[1:])
    known, rest = _NAMES[base], name[len(base):].strip("_ ")
    return known._replace(title=f"{known.title}, {rest}", hub_type="") if rest else known


def shown_value(name: str, value: float) -> str:
    """Returns a value as it is shown, in the unit of its name."""
    return f"{value * metric_name(name).factor:.4g}"
