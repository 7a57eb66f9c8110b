"""The model card of a run, ``README.md`` in its log directory, in the form of the Hugging Face Hub."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from open_seq2seq.checkpoints.packed import CARD
from open_seq2seq.config.yaml_text import dump_yaml
from open_seq2seq.metrics.names import LOSSES, metric_name, shown_value
from open_seq2seq.models.model import COMMANDS
from open_seq2seq.report.content import Content
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

_MARK = b"---\n# Written by OpenSeq2Seq, and written again by --mode=report unless this line is removed.\n"
_LIBRARY = "open-seq2seq"


@contextlib.contextmanager
def explaining(path: Path, what: str) -> Iterator[None]:
    """Context manager that turns errors of writing a file into a sentence.

    Args:
      path: the file.
      what: what it contains, such as ``a report``.

    Raises:
      UserError: the file cannot be written, or is not one of this package.
    """
    try:
        yield
    except disk.ForeignError as error:
        raise UserError(f"{path} is not {what} that OpenSeq2Seq has written ({error.strerror}): move it, or give "
                        "another name.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): free space, or choose a folder that you may "
                        "write to.") from error


def write_card(logdir: Path, content: Content, license: str = "", languages: Sequence[str] = (),
               datasets: Sequence[str] = ()) -> Path | None:
    """Writes the card of a run; returns its path, or None if there is a ``README.md`` that this package did not write.

    Raises:
      OSError: the card cannot be written.
    """
    path = logdir / CARD
    with contextlib.suppress(disk.ForeignError):
        with disk.writing(path, lambda file: file.read(len(_MARK)) == _MARK) as file:
            file.write(model_card(content, license, languages, datasets).encode(errors="replace"))
        return path
    return None


def model_card(content: Content, license: str = "", languages: Sequence[str] = (), datasets: Sequence[str] = (),
               packed: str = "") -> str:
    """Returns the text of a card.

    Args:
      content: the run.
      license: identifier of the licence on the Hub, such as ``apache-2.0``; "" to leave it out.
      languages: codes of languages, such as ``en``.
      datasets: names of data sets on the Hub.
      packed: name of the file that the model is packed in; "" for a log directory.
    """
    verb, task = content.use
    head: dict[str, Any] = {"license": license, "language": list(languages), "library_name": _LIBRARY,
                            "pipeline_tag": task, "datasets": list(datasets),
                            "tags": [_LIBRARY, *dict.fromkeys(filter(None, map(content.part, ("encoder", "decoder"))))],
                            "model-index": _model_index(content, task)}
    text = dump_yaml({name: value for name, value in head.items() if value})
    facts = "".join(f"| {_plain(name)} | {_plain(fact)} |\n" for name, fact in content.facts().items())
    scores = "".join(f"| {_plain(metric_name(name).title)} | {_plain(shown_value(name, value))} |\n"
                     for name, value in content.scores.items())
    return (f"{_MARK.decode()}{text}---\n\n# {_plain(content.name)}\n\n| | |\n|---|---|\n{facts}\n"
            + (f"## Scores\n\n| metric | value |\n|---|---|\n{scores}\n" if scores else "")
            + _use(packed or content.name, verb))


def _model_index(content: Content, task: str | None) -> list[dict[str, Any]]:
    """Returns the scores as the Hub reads them, unscaled values with their signature; [] without scores."""
    signatures = {f"{name}".lower(): text for name, text in content.signatures.items()}
    metrics = []
    for name, value in content.scores.items():
        known = metric_name(name)
        if name not in LOSSES:
            about = {"type": known.hub_type or known.title.lower(), "name": known.title,
                     "value": round(value * known.factor, 4)}
            signature = signatures.get(known.title.partition(" (")[0].lower())
            metrics.append({**about, **({"args": {"signature": signature}} if signature else {})})
    path = content.data_files().get("evaluation", "evaluation data")
    data = {"type": Path(path).parent.name or path, "name": path}
    return [{"name": content.name, "results": [{"task": {"type": task or "other"}, "dataset": data,
                                                "metrics": metrics}]}] if metrics else []


def _use(name: str, verb: str | None) -> str:
    call = f"model.{verb}(inputs)" if verb else "model.infer(inputs)"
    command = f"{COMMANDS.get(verb, verb)} {name} my_input" if verb else f"--mode=infer --logdir={name}"
    return (f"## Use\n\n```python\nimport open_seq2seq as os2s\n\nmodel = os2s.load({name!r})\nprint({call})\n```\n\n"
            f"```bash\nopen_seq2seq {command}\n```\n")


def _plain(text: str) -> str:
    """Returns a text of a run without what Markdown or HTML would act on."""
    words = " ".join(text.split())
    return "".join(f"&#{ord(char)};" if char in "<>|[]`*\\&" else char for char in words)
