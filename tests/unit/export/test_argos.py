"""Packages of Argos Translate: their contents, their translations by Argos Translate, and mistakes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from open_seq2seq.export.formats import format_of
from open_seq2seq.utils.errors import UserError
from tests.unit.export.text_models import FAMILIES, PIECES, exported, make_toys, untrained

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2 of setup.py")
RECIPE = FAMILIES["pieces"][0]
LANGUAGES = {"source_language": "en", "target_language": "de"}
FILES = {"metadata.json", "README.md", "sentencepiece.model", "model/config.json", "model/model.bin",
         "model/shared_vocabulary.json"}
# Its divider of sentences is a model from the network, and stanza and spaCy are other dividers.
PROGRAM = """
import json, sys, types
for name in ("stanza", "spacy", "open_seq2seq"):
    sys.modules[name] = None if name == "open_seq2seq" else types.ModuleType(name)
import argostranslate.package, argostranslate.sbd, argostranslate.translate
argostranslate.sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
argostranslate.package.install_from_path(sys.argv[1])
texts = json.loads(sys.stdin.read())
print(json.dumps([argostranslate.translate.translate(text, "en", "de") for text in texts]))
"""


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory):
    yield from make_toys(tmp_path_factory.mktemp("toys"))


def test_the_package_has_the_files_and_the_languages(toys):
    report = exported(untrained(RECIPE, {**PIECES, **LANGUAGES}), "argos", toys / "package")
    assert report["functions"]["translate"]["share_equal"] == 1.0
    with zipfile.ZipFile("package/translate-en_de-1_0.argosmodel") as archive:
        assert set(archive.namelist()) == {f"translate-en_de-1_0/{name}" for name in FILES}
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
        assert archive.read("translate-en_de-1_0/sentencepiece.model") == Path("pieces.model").read_bytes()
    assert (metadata["from_code"], metadata["to_code"], metadata["type"]) == ("en", "de", "translate")


@pytest.mark.outside
def test_argos_translate_installs_the_package_and_translates(toys):
    pytest.importorskip("minisbd", reason="needs argostranslate with its packages minisbd and sacremoses")
    # Not imported here: it makes folders in the home directory.
    if importlib.util.find_spec("argostranslate") is None:
        pytest.skip("needs argostranslate")
    trained = untrained(RECIPE, {**PIECES, **LANGUAGES})
    chosen = format_of("argos")
    (toys / "installed").mkdir()
    chosen.write(trained.model, chosen.functions(trained.model), toys / "installed")
    texts = ["a bcd häuser", "bade", "e dab cab"]
    search = chosen.search(trained.model)
    # The lengths of translations are limited by Argos Translate alone, to 256 pieces.
    longer = {**search, "decoder_params": {**search["decoder_params"], "extra_decode_length": 250}}
    expected = [found[0].text for found in trained.variant(longer).infer(texts)]
    env = {**os.environ, **{name: str(toys / "home") for name in (
        "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}}
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, "installed/translate-en_de-1_0.argosmodel"], env=env,
                          input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [text[:100] for text in found] == [text.lstrip(" ")[:100] for text in expected]


@pytest.mark.parametrize(("values", "said"), [
    ({**PIECES, "source_language": "en"}, "target_language is not in the config: give .* --target_language=de"),
    (LANGUAGES, "needs one SentencePiece model for both languages, .*: choose the format ctranslate2"),
])
def test_what_is_missing_is_named(values, said):
    with pytest.raises(UserError, match=said):
        format_of("argos").functions(untrained(RECIPE, values).model)


def test_language_models_are_refused():
    with pytest.raises(UserError, match="Argos Translate translates, but the model is a"):
        format_of("argos").functions(untrained(*FAMILIES["language model"]).model)
