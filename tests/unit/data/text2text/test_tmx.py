"""Translation memories: languages, mark-up in segments, and files that are refused."""

from __future__ import annotations

import gzip

import pytest

from open_seq2seq.data.text2text.own_text import read_tmx
from open_seq2seq.utils.errors import DataError

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en"/><body>\n'
BODY = '''<tu><note>x</note><tuv xml:lang="EN-us"><seg>The <bpt i="1">&lt;b></bpt>red<ept i="1">&lt;/b></ept>
 car &amp; <hi>bus</hi></seg></tuv><tuv xml:lang="de"><seg>Das rote Auto</seg></tuv></tu>
<tu><tuv lang="en_GB"><seg>One</seg></tuv><tuv lang="fr"><seg>Un</seg></tuv></tu>
'''
TMX = f"{HEAD}{BODY}</body></tmx>\n"


@pytest.mark.parametrize("name", ["a.tmx", "a.tmx.gz", "packed.tmx", "utf16.tmx"])
def test_texts_of_two_languages(tmp_path, name):
    content = TMX.encode("utf-16" if "16" in name else "utf-8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name in ("a.tmx.gz", "packed.tmx") else content)
    path = str(tmp_path / name)
    assert read_tmx(path, ("de", "en")) == [(4, ["Das rote Auto", "The red car & bus"]), (6, ["", "One"])]
    assert read_tmx(path, ("en-GB", "fr"))[1] == (6, ["One", "Un"])
    with pytest.raises(DataError, match=r"no translation unit in es and en: give two of its languages \(en-us, de, "):
        read_tmx(path, ("es", "en"))


@pytest.mark.parametrize(("content", "words"), [
    (TMX.replace("</body>", ""), r"a\.tmx:7: the file is not valid XML: mismatched tag"), ("", "not valid XML"),
    (TMX.replace('"tmx14.dtd"', '"tmx14.dtd" [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]').replace("One", "&b;"),
     r"a\.tmx:2: the entity 'a' is not supported"),
    (TMX.replace("One", "&eacute;"), r"a\.tmx:6: the entity 'eacute' is not supported"),
    ('<?xml version="1.0" encoding="klingon"?><tmx/>', "cannot be read|not valid XML"),
    ("<tmx/>", r"languages \(none\)"),
])
def test_files_that_are_refused(tmp_path, content, words):
    (tmp_path / "a.tmx").write_text(content)
    with pytest.raises(DataError, match=words):
        read_tmx(str(tmp_path / "a.tmx"), ("de", "en"))
