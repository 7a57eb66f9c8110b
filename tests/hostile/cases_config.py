"""Invalid config files: YAML, Python, and other things in place of a config file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.hostile.case import CHECK, EVALUATE, Case, Expectation, Fault, Place, Refused, Said, Same, Works, shown
from tests.hostile.faults import both, copy, edit, replace_by_fifo, replace_by_folder, replace_by_link, rewrite, write

OF_YAML = ("--config_file=odd.yaml", "--mode=train", "--check", "--logdir=new")
OF_PYTHON = ("--config_file=odd.py", "--mode=train", "--check", "--logdir=new")
A_YAML = copy("run/model.ckpt-60/config.yaml", "odd.yaml")

# YAML values in place of a number, with a part of the expected message.
YAML_VALUES = {
    "2024-13-01": "'2024-13-01' cannot be read as timestamp", "2024-01-01T25:00:00Z": "cannot be read as timestamp",
    "!!timestamp soon": "'soon' cannot be read as timestamp", "!!timestamp 2024-01-01": "has to be int",
    "!!int abc": "'abc' cannot be read as int", "!!int ''": "'' cannot be read as int",
    "!!int '0b_'": "cannot be read as int", "0b_": "cannot be read as int", "[0b_]": "cannot be read as int",
    "0x_": "cannot be read as int", "!!int [1]": "expected a scalar node", "9" * 5000: "cannot be read as int",
    "!!float x": "'x' cannot be read as float", "!!float ''": "'' cannot be read as float", "1e400": "is inf",
    ".nan": "is nan", "-.inf": "is -inf", "!!bool maybe": "'maybe' cannot be read as bool", "!!bool ''": "as bool",
    "!!null x": "is None", "[" * 2000 + "]" * 2000: "nested too deeply", "[" * 100 + "]" * 100: "more than 50 levels",
    "&a [*a]": "an anchor contains itself", "&a {b: [*a]}": "an anchor contains itself",
    "*nowhere": "undefined alias", "!!binary é": "base64", "!!binary aGVsbG8=": "is b'hello'",
    "!!set {a, b}": "has to be int", "!!set [a]": "expected a mapping node", "!!omap [a: 1]": "has to be int",
    "!!omap {a: 1}": "expected a sequence", "!!pairs x": "expected a sequence", "{<<: 3}": "for merging",
    "{<<: [1]}": "for merging", "{<<: {a: 1}}": "is {'a': 1}", "<<": "could not determine a constructor",
    "=": "could not determine a constructor", "{? [1]: 2}": "unhashable key", "{? {a: 1}: 2}": "unhashable key",
    "{a: 1, a: 2}": "the key 'a' occurs twice", "{1: 2}": "is {1: 2}", "{null: 1}": "is {None: 1}",
    "!!python/object/apply:os.system [ls]": "could not determine a constructor", "!own 3": "the tag '!own'",
    "!!map 3": "expected a mapping node", "!!seq 3": "expected a sequence node", "!!str [1]": "expected a scalar node",
    "'unclosed": "unexpected end of stream", "{a": "expected ','", "@x": "cannot start any token",
    "\t24": "cannot start any token", '"\\ud800"': "'\\ud800'", '"\\U00110000"': "chr() arg not in range",
    '"\\x00"': "'\\x00'", "1" + "0" * 400: "has to be from 1",
}


def bomb(levels: int = 9) -> str:
    """Returns a value whose anchors multiply the number of values by ten at each level."""
    lines = ["&a0 [x]", *(f"&a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels))]
    return f"[{', '.join(lines)}]"


def of_yaml(change: Callable[[str], str], encoding: str = "utf-8") -> Fault:
    return both(A_YAML, rewrite("odd.yaml", lambda content: change(content.decode()).encode(encoding)))


def replaced(old: str, new: str) -> Fault:
    return both(A_YAML, edit("odd.yaml", old, new))


def model(name: str) -> Fault:
    return replaced("base_model: Text2Text", f"base_model: {name}")


YAML_FILES: dict[str, tuple[Fault, Expectation]] = {
    "begins with a byte-order mark": (of_yaml(lambda text: "\ufeff" + text), Works()),
    "ends its lines as on Windows": (of_yaml(lambda text: text.replace("\n", "\r\n")), Works()),
    "is in UTF-16": (of_yaml(str, "utf-16"), Refused("odd.yaml", "cannot be read", "utf-8")),
    "is in UTF-16 without a mark": (of_yaml(str, "utf-16-le"), Refused("odd.yaml", "special characters")),
    "is in Latin-1": (of_yaml(lambda text: text + "# é\n", "latin-1"), Refused("odd.yaml", "cannot be read")),
    "has a NUL": (of_yaml(lambda text: text + "\0"), Refused("odd.yaml", "special characters are not allowed")),
    "is indented by tabs": (of_yaml(lambda text: text.replace("  ", "\t")), Refused("odd.yaml, line 4 is", "'\\t'")),
    "holds two documents": (of_yaml(lambda text: text + "---\n" + text), Refused("another document")),
    "goes on after its end": (of_yaml(lambda text: text + "...\nrest\n"), Refused("odd.yaml, line 39 is")),
    "is of YAML 9.9": (of_yaml(lambda text: "%YAML 9.9\n---\n" + text), Refused("incompatible YAML document")),
    "is empty": (write("odd.yaml", ""), Refused("has to be a mapping")),
    "is a number": (write("odd.yaml", "3"), Refused("has to be a mapping")),
    "is a list": (write("odd.yaml", "[1, 2]"), Refused("has to be a mapping")),
    "is cut in half": (of_yaml(lambda text: text[:len(text) // 2]), Refused("odd.yaml, line")),
    "stands there twice": (of_yaml(lambda text: text + text), Refused("the key 'base_model' occurs twice")),
    "gives a key twice": (replaced("random_seed: 3", "random_seed: 3\n  random_seed: 4"), Refused("occurs twice")),
    "has more than 4 MB": (of_yaml(lambda text: text + "#" * (5 << 20)), Refused("more than 4,194,304 bytes")),
    "has many values": (of_yaml(lambda text: f"{text}more: [{'1,' * 200_000}]"), Refused("more than 100,000 values")),
    "has anchors that grow": (replaced("max_length: 24", f"max_length: {bomb()}"), Refused("anchors expand to more")),
    "merges itself": (replaced("base_params:", "base_params: &all\n  <<: *all"), Refused("not valid YAML")),
    "holds itself": (replaced("random_seed: 3", "random_seed: &seed [*seed]"), Refused("anchor contains itself")),
    "has a section named 1": (of_yaml(lambda text: text + "1: 2\n"), Refused("unknown key '1'")),
    "has a section without a name": (of_yaml(lambda text: text + "null: 2\n"), Refused("unknown key 'None'")),
    "has a list for a section's name": (of_yaml(lambda text: text + "? [1]\n: 2\n"), Refused("unhashable key")),
    "has parameters named by numbers": (replaced("random_seed: 3", "1: 3"), Refused("base_params has the key 1")),
    "has a parameter without a name": (replaced("random_seed: 3", "null: 3"), Refused("has the key None")),
    "has the terminal's codes in a name": (replaced("random_seed: 3", '"\\e[31mred": 3'), Refused("'\\x1b[31mred'")),
    "has a list of parameters": (write("odd.yaml", "base_model: Text2Text\nbase_params: [1]\n"), Refused("is of type")),
    "has no parameters": (write("odd.yaml", "base_model: Text2Text\nbase_params: {}\n"),
                          Refused("'max_steps' or 'num_epochs' is missing", several=True)),
    "names no model": (replaced("base_model: Text2Text\n", ""), Refused("defines no base_model")),
    "names a model ..x.Y": (model("..x.Y"), Refused("'..x.Y', which is not a valid model name")),
    "names a model 3": (model("3"), Refused("base_model is 3")),
    "names a list of models": (model("[Text2Text]"), Refused("base_model is ['Text2Text']")),
    "names the empty model": (model("''"), Refused("is not a valid model name")),
    "names a model with a NUL": (model('"a\\0b"'), Refused("is not a valid model name")),
    "names a model with half a character": (model('"\\ud800.x"'), Refused("is not a valid model name")),
    "names an encoder as its model": (model("TransformerEncoder"), Refused("there is no such model")),
    "names a function as its model": (model("os.system"), Refused("has to be a subclass of Model")),
    "names a module as its model": (model("os.path"), Refused("has to be a subclass of Model")),
    "names a model in a missing file": (model("nix.py:Model"), Refused("the file nix.py does not exist")),
    "names a model of 100,000 letters": (model("x" * 100_000), Refused("there is no such model")),
}

STANDS_THERE: dict[str, tuple[Callable[[str], Fault], str]] = {
    "a folder": (lambda name: replace_by_folder(name, "mine"), "is a folder"),
    "a pipe": (replace_by_fifo, "is not a regular file"),
    "a link to nothing": (lambda name: replace_by_link(name, "nowhere"), "is a broken symbolic link"),
    "a link to itself": (lambda name: replace_by_link(name, name), "is a broken symbolic link"),
    "a link to zeros without end": (lambda name: replace_by_link(name, "/dev/zero"), "is not a regular file"),
    "a link to this process's memory": (lambda name: replace_by_link(name, "/proc/self/mem"), "Input/output error"),
    "a terabyte of nothing": (lambda name: lambda place: _sparse(place / name, 1 << 40), "more than 4,194,304 bytes"),
    "bytes that are no text": (lambda name: write(name, bytes(range(256)) * 4), "odd."),
}


def _sparse(path: object, size: int) -> None:
    with open(path, "wb") as file:  # type: ignore[call-overload]
        file.truncate(size)


# Lines appended to an otherwise valid config.
PYTHON: dict[str, tuple[str, Expectation]] = {
    "raises an error": ("raise ValueError('my own')", Refused("odd.py, line 35: ValueError: my own.")),
    "raises an error without a text": ("raise ValueError", Refused("odd.py, line 35: ValueError.")),
    "raises an error of several lines": ("raise ValueError('a\\nb')", Refused("ValueError: a b.")),
    "raises an error that has no text": (
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E()", Refused("odd.py, line 37: E.")),
    "raises what is no Exception": ("raise BaseException('x')", Refused("line 35: BaseException: x.")),
    "is a generator that was closed": ("raise GeneratorExit", Refused("line 35: GeneratorExit.")),
    "exits with 0": ("import sys; sys.exit(0)", Refused("ended the program with sys.exit(0)")),
    "exits with words": ("import sys; sys.exit('bye')", Refused("ended the program with sys.exit('bye')")),
    "calls itself without end": ("def f(): return f()\nf()", Refused("line 35: RecursionError")),
    "takes all memory": ("x = bytearray(10 ** 12)", Refused("line 35: MemoryError.")),
    "imports what is missing": ("import nix_nix", Refused("No module named 'nix_nix'")),
    "imports a model that is missing": ("from open_seq2seq.models import Txt2Text", Refused("Did you mean")),
    "is not finished": ("def f(:", Refused("odd.py, line 35: invalid syntax")),
    "has a NUL": ("x = '\0'", Refused("odd.py", "null bytes")),
    "fails an assertion": ("assert False", Refused("line 35: AssertionError.")),
    "uses a name of TensorFlow 1": ("tf.contrib.x", Refused("line 35: tf.contrib.x of TensorFlow 1")),
    "asks a question": ("input()", Refused("line 35: EOFError")),
    "takes its model away": ("del base_model", Refused("defines no base_model")),
    "takes its parameters away": ("del base_params", Refused("defines no base_params")),
    "has a number for a model": ("base_model = int", Refused("has to be a subclass of Model")),
    "has a function for a section": ("train_params = len", Refused("train_params is of type")),
    "has parameters that hold themselves": ("base_params['x'] = base_params", Refused("contains itself")),
    "has a list that holds itself": ("x = []; x.append(x); base_params['max_steps'] = x", Refused("contains itself")),
    "has parameters in themselves": ("base_params['encoder_params']['x'] = base_params", Refused("contains itself")),
    "nests 5,000 dicts": ("x = {}\nfor i in range(5000): x = {'a': x}\nbase_params['x'] = x",
                          Refused("more than 50 levels")),
    "nests lists that grow": ("x = [1]\nfor i in range(12): x = [x] * 10\nbase_params['x'] = x",
                              Refused("more than 1,000,000 values")),
    "nests dicts that grow": ("x = {}\nfor i in range(40): x = {'a': x, 'b': x}\nbase_params['x'] = x",
                              Refused("more than 1,000,000 values")),
    "names a parameter 1": ("base_params[1] = 2", Refused("base_params has the key 1")),
    "names a parameter by bytes": ("base_params[b'x'] = 2", Refused("has the key b'x'")),
    "names a parameter by what has no text": (
        "class K:\n    def __str__(self): raise ValueError\n    __repr__ = __str__\nbase_params[K()] = 1",
        Refused("has the key a value of type K that")),
    "names a part's parameter 1": ("base_params['encoder_params'][1] = 2",
                                   Refused("has to be a dict whose keys are strings", several=True)),
    "has a value that has no text": (
        "class K:\n    def __repr__(self): raise ValueError\nbase_params['max_steps'] = K()",
        Refused("a value of type K")),
    "has an array for a number": ("import numpy\nbase_params['max_steps'] = numpy.array([1, 2])", Refused("array([1,")),
    "has a tensor for a number": ("base_params['max_steps'] = tf.constant(3)", Refused("'max_steps' is <tf.Tensor")),
    "has True for a number": ("base_params['max_steps'] = True", Refused("'max_steps' is True")),
    "has a generator for a number": ("base_params['max_steps'] = (i for i in [1])", Refused("is <generator")),
    "has bytes for a file's name": ("base_params['data_layer_params']['source_file'] = b'a'", Refused("is b'a'")),
    "has parameters that cannot be read": (
        "import collections.abc\nclass M(collections.abc.Mapping):\n"
        "    def __getitem__(self, key): raise ValueError('x')\n    def __iter__(self): return iter('ab')\n"
        "    def __len__(self): return 2\nbase_params = M()", Refused("base_params cannot be read: ValueError: x")),
    "has parameters of another mapping": ("import types\nbase_params = types.MappingProxyType(base_params)", Works()),
    "imports itself": ("import odd", Works()),
    "is based on itself": ("base_config = './odd.py'", Refused("a config cannot be its own base")),
    "is based on a vocabulary": ("base_config = 'vocab.txt'", Refused("vocab.txt, has to end in .py")),
    "is based on the config of a run, whose class it keeps": (
        "base_config = 'run/model.ckpt-60/config.yaml'\ndel base_model", Works()),
    "leaves its folder for another": ("import os; os.chdir('/')", Works()),
    "clears the places of modules": ("import sys; sys.path.clear()", Works()),
    "has no places of modules": ("import sys; sys.path = None", Works()),
    "runs a thread": ("import threading, time; threading.Thread(target=time.sleep, args=(0.5,)).start()", Works()),
    "prints": ("print('hello from the config')", Said("hello from the config")),
    "removes the environment": ("import os; os.environ.clear()", Works()),
    "makes another process": ("import os\nif os.fork() == 0: os._exit(0)", Works()),
    "makes warnings errors": ("import warnings; warnings.simplefilter('error')", Works()),
}


def of_python(line: str) -> Fault:
    return lambda place: (place / "odd.py").write_text(
        (place / "config.py").read_text(encoding="utf-8") + line + "\n", encoding="utf-8")


PYTHON_FILES: dict[str, tuple[bytes, Expectation]] = {
    "empty": (b"", Refused("defines no base_model", several=True)),
    "in an unknown encoding": (b"# coding: nix\n", Refused("odd.py", "unknown encoding")),
    "in UTF-16": ("base_model = 1".encode("utf-16"), Refused("odd.py", "null bytes")),
    "a shell script": (b"#!/bin/sh\necho hi\n", Refused("odd.py, line 2: invalid syntax")),
    "compiled": (b"\xcb\r\r\n" + bytes(40), Refused("odd.py", "null bytes")),
    "of 5,000 brackets": (b"x = " + b"(" * 5000 + b")" * 5000, Refused("too many nested parentheses")),
    "a sum of 200,000 numbers": (b"x = " + b"1 + " * 200_000 + b"1", Refused("RecursionError")),
    "of more than 4 MB": (b"#" * (5 << 20), Refused("more than 4,194,304 bytes")),
}


def in_package(place: Place) -> None:
    """Moves the config into a package that cannot be imported."""
    (place / "package").mkdir()
    (place / "package/__init__.py").write_text("raise ValueError", encoding="utf-8")
    (place / "package/config.py").write_bytes((place / "config.py").read_bytes())


def _cases() -> Iterator[Case]:
    for text, words in YAML_VALUES.items():
        yield Case(f"YAML gives {shown(text)} for a number", OF_YAML, Refused(words),
                   replaced("max_length: 24", f"max_length: {text}"), quick=len(text) < 50)
    for what, (fault, expect) in YAML_FILES.items():
        yield Case(f"a config of YAML {what}", OF_YAML, expect, fault)
    for name in ("odd.yaml", "odd.py"):
        for what, (put, words) in STANDS_THERE.items():
            yield Case(f"where {name} should be is {what}", (f"--config_file={name}", *CHECK[1:]), Refused(words),
                       put(name))
    for what, (line, expect) in PYTHON.items():
        yield Case(f"a config of Python {what}", OF_PYTHON, expect, of_python(line))
    for what, (content, expect) in PYTHON_FILES.items():
        yield Case(f"a config of Python is {what}", OF_PYTHON, expect, write("odd.py", content))
    yield Case("a config lies in a package that fails", ("--config_file=package/config.py", *OF_PYTHON[1:]), Works(),
               in_package)
    yield Case("a config that is in order evaluates as before", EVALUATE, Same())


CASES = list(_cases())
