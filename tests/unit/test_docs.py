"""The documentation tells the truth: the parameter page is current, and names in configs.md exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_parameter_page_is_current():
    page = load(ROOT / "docs" / "make_reference.py").build_page()
    assert (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8") == page, \
        "run python docs/make_reference.py and commit docs/parameters.md"


# Of mpiexec, horovodrun, scripts/install_horovod.sh, docker and sbatch.
LAUNCHERS_OWN = (r"--(bind-to|allow-run-as-root|oversubscribe|mca|gloo|network-interfaces|nccl|no-nccl|build-arg|rm"
                 r"|nodes|min-np|max-np|host-discovery-script|blacklist-cooldown-range|reset-limit|elastic-timeout)(?![\w-])")


def test_every_flag_in_the_pages_exists():
    from open_seq2seq.cli import make_parser
    from open_seq2seq.models import Speech2Text, Text2Text

    flags = {option for action in make_parser()._actions for option in action.option_strings}
    params = {name for model in (Speech2Text, Text2Text)
              for name in (*model.get_required_params(), *model.get_optional_params())}
    sections = {"eval_params", "train_params", "infer_params", "key"}  # and the placeholder of the usage line
    scripts = "".join(path.read_text() for folder in ("scripts", "benchmarks") for path in (ROOT / folder).glob("*.py"))
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(LAUNCHERS_OWN, "", page.read_text(encoding="utf-8"))
        for name in re.findall(r"(?<![-\w])--([A-Za-z]\w*)", text):
            assert f"--{name}" in flags or name in params | sections or f"--{name}" in scripts, f"{page.name}: --{name}"


def test_every_file_in_the_pages_exists():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"\b((?:scripts|benchmarks|example_configs|docs)/[\w./-]+\.(?:py|md|png))", text):
            assert (ROOT / name).is_file(), f"{page.name}: {name}"
        for name in re.findall(r"\]\(([\w./-]+\.md)\)", text):
            assert (page.parent / name).is_file(), f"{page.name}: {name}"
