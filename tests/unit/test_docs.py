"""The documentation tells the truth: the parameter page is current, and names in configs.md exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_parameter_page_is_current():
    page = load(ROOT / "docs" / "make_reference.py").build_page()
    assert (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8") == page, \
        "run python docs/make_reference.py and commit docs/parameters.md"


def test_the_examples_in_the_pages_are_those_of_the_files():
    reference = load(ROOT / "docs" / "make_reference.py")
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert "class " in pages["components.md"].split("own_parts.py -->")[1]
    for name, text in pages.items():
        assert "--8<--" not in text, name
        filled = reference.with_results(reference.with_examples(text))
        filled = reference.with_cards(filled, name != "README.md")
        assert filled == text, "run python docs/make_reference.py and commit " + name


# Of pip, mpiexec, horovodrun, scripts/install_horovod.sh, docker, sbatch and OpenNMT-tf.
LAUNCHERS_OWN = (r"--(no-deps|bind-to|allow-run-as-root|oversubscribe|mca|gloo|network-interfaces|nccl|no-nccl"
                 r"|build-arg|rm|nodes|min-np|max-np|host-discovery-script|blacklist-cooldown-range|reset-limit"
                 r"|elastic-timeout|tf_xla_persistent_cache_directory"
                 r"|auto_config|with_eval|features_file|predictions_file|max_count|sentencepiece|mixed_precision"
                 r")(?![\w-])")


def test_every_flag_in_the_pages_exists():
    from open_seq2seq.cli import make_parser
    from open_seq2seq.models import (
        LSTMLM,
        MultiDecoderModel,
        Speech2Text,
        Text2SpeechTacotron,
        Text2SpeechWavenet,
        Text2Text,
    )
    from open_seq2seq.server.limits import Limits

    flags = {option for action in make_parser()._actions for option in action.option_strings}
    params = {name for model in (LSTMLM, MultiDecoderModel, Speech2Text, Text2SpeechTacotron, Text2SpeechWavenet,
                                            Text2Text)
              for found in model.declared_params() for name in found}
    sections = {"eval_params", "train_params", "infer_params", "key"}  # and the placeholder of the usage line
    programs = [path for folder in ("scripts", "benchmarks") for path in (ROOT / folder).glob("*.py")]
    programs += [ROOT / "open_seq2seq" / place for place in ("run/tools.py", "server/command.py")]
    scripts = "".join(path.read_text() for path in programs) + "".join(
        f"--{field.name}" for field in dataclasses.fields(Limits))
    for page in PAGES:
        text = re.sub(LAUNCHERS_OWN, "", page.read_text(encoding="utf-8"))
        for name in re.findall(r"(?<![-\w])--([A-Za-z]\w*)", text):
            assert f"--{name}" in flags or name in params | sections or f"--{name}" in scripts, f"{page.name}: --{name}"


# Names that pages give although no code has them.
OTHERS = {
    "net_connections", "soxr_hq",  # of psutil and librosa
    "image_encoder", "image_encoder_params", "text_encoder", "x_params", "my_speech", "my_run",  # a user's own
    "bias_add", "btl_tcp_if_include", "byte_fallback",  # of TensorFlow, Open MPI and SentencePiece
    "precompute_mel_basis",  # an option of NVIDIA's OpenSeq2Seq that was left out
    "tacotron_gst_combine_csv", "tacotron_gst_create_infer_csv", "tacotron_gst_create_syn_data",  # tools of it
    "nsr_create_syn_train_csv", "tacotron_save_spec", "wavenet_naive_infer",
    "change_sample_rate", "get_best_accuracy", "process_data",
    "larc_clip_on", "larc_final_lr", "larc_grad_update",  # made of a prefix and a field
    "average_last_checkpoints", "batch_type", "decay_params", "decay_type", "effective_batch_size",  # of OpenNMT-tf
    "eval_features_file", "eval_labels_file", "keep_checkpoint_max", "maximum_features_length",
    "maximum_labels_length", "model_dim", "model_dir", "moving_average_decay", "sample_buffer_size",
    "save_checkpoints_steps", "save_summary_steps", "source_tokenization", "source_vocabulary",
    "target_tokenization", "target_vocabulary", "train_features_file", "train_labels_file", "with_scores",
}
# Keys of the dicts that describe layers and searches, which are not declared one by one.
KEYS_OF_DICTS = {"ctc_weight", "kernel_size", "num_channels", "pool_size", "residual_dense", "use_bias"}
WORD = r"[a-z]+(?:_[a-z0-9]+)+"


def declared() -> set[str]:
    """Returns the names of all parameters that the package declares, and those of the command's own flags."""
    from open_seq2seq import data, decoders, encoders, losses, models, optimizers
    from open_seq2seq.cli import make_parser
    from open_seq2seq.optimizers import lr_policies

    found = {option.lstrip("-") for action in make_parser()._actions for option in action.option_strings}
    for room in (data, decoders, encoders, losses, models, optimizers):
        for cls in (getattr(room, name) for name in room.__all__):
            for params in ("get_required_params", "get_optional_params"):
                found |= set(getattr(cls, params, dict)())
    for function in lr_policies.POLICIES.values():
        found |= set(inspect.signature(function).parameters)
    return found


def named_in_code() -> set[str]:
    """Returns all identifiers of the repository's code, and the words of strings that are one word or path."""
    found = set()
    for folder in ("open_seq2seq", "scripts", "benchmarks", "docs", "example_configs", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= {path.stem, *path.relative_to(ROOT).parts[:-1]}
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [getattr(node, field, None) for field in ("name", "id", "attr", "arg")]
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                    names += re.findall(r"\w+", node.value)
                found |= {name for name in names if isinstance(name, str)}
    return found


def in_backticks(page: Path) -> str:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return "\n".join(re.findall(r"`([^`\n]+)`", text))


def test_every_parameter_in_the_pages_is_declared():
    known = declared() | OTHERS | KEYS_OF_DICTS | sections_and_examples()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        keys = set(re.findall(rf"(?<![\w\"'.])({WORD}): ", in_backticks(page)))
        keys |= set(re.findall(rf"[\"']({WORD})[\"']: ", text))
        keys |= {key for path in re.findall(r"(?<![-\w])--(\w+(?:/\w+)+)[= ]", text) for key in path.split("/")}
        assert not keys - known, f"{page.name}: {sorted(keys - known)}"


def sections_and_examples() -> set[str]:
    """Returns the names of sections, and the strings of the examples, which declare parameters of their own."""
    from open_seq2seq.config.overrides import SECTIONS

    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "docs/examples").rglob("*.py")]
    return set(SECTIONS) | {node.value for tree in trees for node in ast.walk(tree)
                            if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_name_in_the_pages_exists():
    known = named_in_code() | OTHERS
    for page in PAGES:
        words = set(re.findall(rf"(?<![\w.-]){WORD}(?![\w-])", in_backticks(page)))
        assert not words - known, f"{page.name}: {sorted(words - known)}"


def test_descriptions_of_parameters_name_what_exists():
    known = named_in_code() | declared()
    page = (ROOT / "docs/parameters.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 300
    for name, text in rows:
        words = set(re.findall(rf"(?<![\w.-]){WORD}(?![\w-])", text))
        assert not words - known, f"{name}: {sorted(words - known)}"


def test_every_file_in_the_pages_exists():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"\b((?:scripts|benchmarks|example_configs|docs)/[\w./-]+\.(?:py|md|png))", text):
            assert (ROOT / name).is_file(), f"{page.name}: {name}"
        for name in re.findall(r"\]\(([\w./-]+\.md)\)", text):
            assert (page.parent / name).is_file(), f"{page.name}: {name}"
