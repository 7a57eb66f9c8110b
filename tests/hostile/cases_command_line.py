"""Invalid command lines: flags, values, names, and numbers out of range."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.case import CHECK, CONFIG, INFER, Case, Expectation, Refused, Works, shown

NEW = (*CHECK, "--logdir=new")
OF_LOGDIR = ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files")

# Values for a number, as typed, with a part of the expected message.
VALUES = {
    "2024-13-01": "'2024-13-01'", "[2024-13-01]": "'[2024-13-01]'", "!!int abc": "'!!int abc'",
    "[!!int abc]": "'[!!int abc]'", "[!!int '']": "has to be int", "[!!bool maybe]": "'[!!bool maybe]'",
    "{a: !!bool x}": "has to be int", "[!!timestamp x]": "has to be int", "[0b_]": "'[0b_]'", "{a: 0b_}": "'{a: 0b_}'",
    "9" * 5000: "5,002 characters", "[" + "9" * 5000 + "]": "5,004 characters", "[" * 3000 + "]" * 3000: "'[[[[",
    "[" * 100 + "]" * 100: "more than 50 levels", "(" * 3000 + ")" * 3000: "'((((", "-" * 5000 + "1": "'-----",
    "[&a [*a]]": "'[&a [*a]]'", "{a: &a [*a]}": "'{a: &a [*a]}'", "{1: 2}": "is {1: 2}", "{[1]: 2}": "'{[1]: 2}'",
    "{null: 1}": "is {None: 1}", "\ud800": "'\\ud800'", "[\udcff]": "'[\\udcff]'", "x" * 100_000: "100,002 characters",
    "'": "has to be int", "(": "'('", "(1,)": "is [1]", "[1": "'[1'", "{": "'{'", "{[}": "'{[}'", "": "is ''",
    "\n": "'\\n'", "1 2": "'1 2'", "0x18": "'0x18'", "1e400": "is inf", "-1e400": "is -inf", "1__0": "'1__0'",
    "24.5": "is 24.5", "true": "is True", "null": "is None", "[None]": "is [None]", "9**9**9": "'9**9**9'",
    "[9**9**9]": "has to be int", "['a'*10**9]": "has to be int", "[b'a']": "[b'a']", "'\\x00'": "'\\x00'",
    "{a: 1, a: 2}": "'{a: 1, a: 2}'", "__import__('os').abort()": "has to be int",
}

DICTS = {
    "{1: 2}": "has to be a dict whose keys", "{null: 1}": "dict whose keys", "{[1]: 2}": "parameter is a dict",
    "[1]": "parameter is a dict", "x": "parameter is a dict", "": "parameter is a dict", "null": "has to be dict",
    "{learning_rate: {a: 1}}": "make both of them dicts", "{learning_rate: &a [*a]}": "but the parameter is a dict",
    "{'': 1}": "Unknown parameter 'lr_policy_params/'", '{"a\\0b": 1}': "Unknown parameter 'lr_policy_params/a\\x00b'",
}

ARGUMENTS = {
    "--": "'--' is not understood", "--=x": "'--=x' is not understood", "-x": "'-x' is not understood",
    "": "'' is not understood", "=": "'=' is not understood", "word": "'word' is not understood",
    "@vocab.txt": "'@vocab.txt' is not understood", "\u2013mode=eval": "is not understood",
    "--/=1": "'--/' has an empty part", "--a//b=1": "'--a//b' has an empty part", "--a b=1": "Unknown parameter 'a b'",
    "--é=1": "Unknown parameter 'é'", "--\ud800=1": "Unknown parameter '\\ud800'", "--1=2": "Unknown parameter '1'",
    "--__class__=1": "Unknown parameter '__class__'", "--max_steps": "needs a value", "--max_steps=": "is ''",
    "--base_params=1": "names a whole section", "--max_steps/x=1": ", not a dict",
    "--encoder_params/hidden_size/x=1": ", not a dict", "--train_params/x/y=1": "Unknown parameter 'x'",
    "--" + "a/" * 3000 + "b=1": "3,001 levels", "--" + "x" * 200_000 + "=1": "Unknown parameter 'xxx",
    "--base_model=..x.Y": "Unknown parameter 'base_model'", "--max-steps=3": "Did you mean 'max_steps'",
    "--confg_file=x": "Did you mean '--config_file'", "--Mode=eval": "Did you mean '--mode'", "--CHECK": "needs a",
    "--check=maybe": "either True or False", "--check=": "either True or False", "--trust_code=2": "True or False",
    "--mode=": "The mode is ''", "--mode=trian": "Did you mean 'train'", "--mode=\udcff": "The mode is '\\udcff'",
    "--mode=" + "x" * 100_000: "The mode is 'xxx", "--mode": "expected one argument", "--config_file": "expected one",
    "--bench_steps=0": "positive integer", "--bench_steps=1e3": "positive integer",
    "--bench_steps=²": "positive integer",
    "--bench_steps=" + "9" * 5000: "positive integer", "--bench_start=-1": "an integer of at least 0",
    "--version=1": "--version: ignored explicit argument", "--elastic": "not with --check",
    "--num_epochs=x": "has to be int", "--max_steps=null": "'max_steps' or 'num_epochs' is missing",
}

NAMES = {name: "not a valid encoder name" for name in
         ("..x.Y", ".", "..", "os.", ".os", "a..b", ":X", "x.py:", "/dev/zero:X", "a b.c", "\ud800.x", "a\nb.c")} | {
    "a.b": "No module named 'a'", "é.ü": "No module named 'é'", "os.system": "has to be a subclass of Encoder",
    "os.path": "has to be a subclass of Encoder", "sys.exit": "has to be a subclass of Encoder", "1.2": "is 1.2",
    "nix.py:X": "the file nix.py does not exist", "/dev/zero.py:X": "does not exist", "[]": "is []", "null": "is None",
    "config.py:base_params": "has to be a subclass of Encoder", "config.py:nix": "config.py has no nix",
    "__main__.X": "__main__ has no X", "open_seq2seq.encoders.nix": "has no nix", "Text2Text": "no such encoder",
}

_COUNT, _SHARE = "has to be at least 1", "has to be at least 0 and below 1"
RANGES = {
    "random_seed": {"-1": "has to be from 0 to", str(2 ** 43): "has to be from 0 to", str(2 ** 63): "from 0 to"},
    "lr_policy_params/warmup_steps": {"0": _COUNT, "-1": _COUNT, "1e30": "from -2^63"},
    "lr_policy_params/d_model": {"0": _COUNT},
    "lr_policy_params/learning_rate": {"-1": "at least 0", "nan": "at least 0"},
    "encoder_params/attention_dropout": {"1.0": _SHARE, "-1": _SHARE}, "encoder_params/relu_dropout": {"1": _SHARE},
    "encoder_params/layer_postprocess_dropout": {"1.0": _SHARE, "nan": _SHARE},
    "encoder_params/filter_size": {"0": _COUNT, "-1": _COUNT}, "decoder_params/filter_size": {"0": _COUNT},
    "encoder_params/num_heads": {"0": _COUNT, "3": "multiple of num_heads"},
    "encoder_params/hidden_size": {"0": _COUNT, "17": "multiple of num_heads"},
    "encoder_params/encoder_layers": {"0": "from 1 to 1000", "1e12": "from 1 to 1000"},
    "decoder_params/beam_size": {"0": "from 1 to 10000", "1e9": "from 1 to 10000"},
    "decoder_params/alpha": {"-1": "at least 0"}, "decoder_params/extra_decode_length": {"1e12": "from 0 to 1000000"},
    "decoder_params/EOS_ID": {"-1": "at least 0"}, "loss_params/label_smoothing": {"1.0": _SHARE},
    "data_layer_params/max_length": {"1000000000000": "from 1 to 1000000", "0": "from 1", "1": "at least 3"},
    "data_layer_params/prefetch_buffer_size": {"1e12": "at most 10000"}, "data_layer_params/delimiter": {"": "empty"},
    "data_layer_params/map_parallel_calls": {"1e9": "from 1 to 1024"},
    "save_summaries_steps": {str(2 ** 65): "2^63", "0": _COUNT}, "save_checkpoint_steps": {str(2 ** 65): "2^63"},
    "max_steps": {"0": "from 1 to", "1e16": "from 1 to"},
}

INFERENCE = {
    ("--infer_output_file=",): "--infer_output_file is empty", ("--infer_output_file=run",): "is a folder",
    ("--infer_output_file=" + "x" * 300,): "name too long", ("--logdir=" + "x" * 300,): "name too long",
    ("--infer_output_file=train.src/x",): "is a file, not a folder", ("--infer_output_file",): "expected one argument",
    ("--infer_files",): "expected at least one argument", ("--infer_files", ""): "is , which does not exist",
    ("--infer_files", "nix"): "is nix, which does not exist", ("--infer_files", "run"): "which is a folder",
    ("--infer_files", "-", "-"): "twice", ("--infer_files", "\udcff"): "which does not exist",
    ("--infer_files", "/dev/zero"): "is a device", ("--mode=train", "--infer_files", "nix"): "mode is train",
    ("--logdir=nix",): "nix does not exist", ("--logdir=vocab.txt",): "neither a log directory nor",
    ("--elastic",): "leave --elastic",
    ("--restore_best_checkpoint=maybe",): "True or False",
}


def _cases() -> Iterator[Case]:
    def refused(name: str, command: tuple[str, ...], words: str, quick: bool = False, several: bool = False) -> Case:
        return Case(name, command, Refused(words, several=several), quick=quick)

    for text, words in VALUES.items():
        yield refused(f"a number is given as {shown(text)}", (*NEW, f"--data_layer_params/max_length={text}"), words)
    for text, words in DICTS.items():
        yield refused(f"a dict is given as {shown(text)}", (*NEW, f"--lr_policy_params={text}"), words)
    for text, words in ARGUMENTS.items():
        yield refused(f"an argument is {shown(text)}", (*NEW, text), words, quick=len(text) < 50)
    for text, words in NAMES.items():
        yield refused(f"an encoder is named {shown(text)}", (*NEW, f"--encoder={text}"), words)
    for key, values in RANGES.items():
        for text, words in values.items():
            yield refused(f"{key} is {text or 'empty'}", (*NEW, f"--{key}={text}"), words)
    for arguments, words in INFERENCE.items():
        yield refused(f"inference is given {' '.join(map(shown, arguments))}", (*INFER, *arguments), words)
    others: dict[tuple[str, ...], Expectation] = {
        (): Refused("required: --config_file"), (*INFER, "--enable_logs"): Works(),
        ("--config_file=",): Refused("is a folder"),
        ("--config_file=nix",): Refused("does not exist"), ("--config_file=vocab.txt",): Refused("has to end in .py"),
        ("--config_file=run",): Refused("is a folder"), ("--config_file=" + "x" * 5000 + ".py",): Refused("xxx"),
        ("--config_file=\udcff.py",): Refused("does not exist"), ("--config_file=config.py/x",): Refused("not exist"),
        (CONFIG, "--mode=eval", "--mode=trian"): Refused("'trian'"), ("--config=nix.py", *NEW): Works(),
        ("--mode=infer", "--infer_files", "dev.src"): Refused("neither a config nor a trained model"),
        ("--mode=infer", "--logdir=nix", "--infer_files", "dev.src"): Refused("nix does not exist"),
        (CONFIG, "--continue_learning", "--logdir=nix"): Refused("contains no checkpoint: leave the flag out"),
        (CONFIG, "--mode=train"): Refused("run is not empty"), (*OF_LOGDIR, "x" * 5000): Refused("does not exist"),
    }
    for arguments, expect in others.items():
        yield Case(f"the command line is {shown(' '.join(arguments))}", arguments, expect)


CASES = list(_cases())
