"""Each user's mistake ends with exit code 2 and one sentence; docs/bad-input.md lists them."""

from __future__ import annotations

import fcntl

import pytest

from tests.integration.conftest import ROOT

CASES = {
    "missing config": (["--config_file=nowhere.py"], "nowhere.py"),
    "missing data file": (["--train_params/data_layer_params/source_file=nowhere.txt"], "nowhere.txt"),
    "unknown key": (["--encoder_params/hiden_size=4"], "Did you mean 'hidden_size'"),
    "ill-typed key": (["--encoder_params/num_heads=many"], "num_heads"),
    "unknown mode": (["--mode=trian"], "Did you mean 'train'"),
    "unknown class": (["--encoder=TransfomerEncoder"], "Did you mean 'TransformerEncoder'"),
    "unknown policy argument": (["--lr_policy_params/warmup=3"], "warmup"),
    "unknown optimizer": (["--optimizer=Adm"], "Did you mean 'Adam'"),
    "unknown summary": (["--summaries=[lerning_rate]"], "learning_rate"),
    "both lengths": (["--max_steps=3", "--num_epochs=2"], "only one of them"),
    "neither length": (["--max_steps=null"], "'max_steps' or 'num_epochs' is missing"),
    "batch larger than the data": (["--batch_size_per_gpu=999"], "Overall batch size is too big"),
    "update larger than the data": (["--iter_size=999"], "Overall batch size is too big"),
    "half type": (["--dtype=float17"], "mixed"),
    "resume from nothing": (["--continue_learning"], "contains no checkpoint: leave the flag out"),
    "horovod": (["--use_horovod=maybe"], "use_horovod"),
    "towers": (["--num_gpus=2"], "num_gpus"),
    "frozen nothing": (["--freeze_variables_regex=nothing_like_it"], "freeze_variables_regex"),
    "unknown kind of operations": (["--dtype=mixed", "--mixed_choice=['products']"], "Did you mean 'product'"),
    "exclusive parameters": (["--max_grad_norm=1.0", "--larc_params/larc_eta=0.001"], "exclude each other"),
    "unknown metric": (["--mode=train_eval", "--best_metric=Eval_BLUE_Score"], "Did you mean 'Eval_BLEU_Score'"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_sentence_and_exit_code_2(command, name):
    arguments, expected = CASES[name]
    code, _, err = command(*arguments)
    assert code == 2, err
    lines = [line for line in err.splitlines() if line.startswith("Error: ")]
    assert lines and any(expected in line for line in lines), err
    assert "Traceback" not in err


def test_problems_are_collected(command):
    code, _, err = command("--encoder_params/hiden_size=4", "--decoder_params/alhpa=1", "--max_step=3")
    assert code == 2
    assert all(name in err for name in ("hiden_size", "alhpa", "max_step"))


def test_missing_files_and_other_mistakes_are_told_together_and_nothing_is_made(workspace, command):
    code, out, err = command("--mode=train_eval", "--optimizer=Adm", "--data_layer_params/src_vocab_file=nowhere.txt",
                             f"--train_params/data_layer_params/source_file={workspace}/tran.src",
                             "--eval_params/data_layer_params/target_file=none.tgt", "--hooks=h.py:Hook")
    assert code == 2 and not out and not (workspace / "run").exists()
    assert len(err.splitlines()) == 7 and "Did you mean 'train.src'?" in err
    assert err.count("give both") == 2  # each section replaces only one file of its pair
    for words in ("'Adm'", "'data_layer_params/src_vocab_file' is 'nowhere.txt'", "none.tgt does not exist",
                  "has to be a list of hook classes or their names, such as ['h.py:Hook']"):
        assert words in err


HOOKS = {
    "number": ("3", "'hooks/0' is 3"),
    "other arguments": ("class H:\n def __init__(self): pass\n def begin(self, t): pass\n"
                        " def after_step(self, t, r): pass\n def end(self, t): pass", "train_model"),
    "after_step without results": ("class H:\n def __init__(self, train_model, eval_model): pass\n"
                                   " def begin(self, t): pass\n def after_step(self, step): pass\n"
                                   " def end(self, t): pass", "after_step(trainer, results)"),
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_could_not_be_called_is_refused_before_anything_is_made(workspace, command, name):
    text, words = HOOKS[name]
    (workspace / "h.py").write_text(text)
    hook = "3" if text == "3" else f"'{workspace}/h.py:H'"
    code, out, err = command(f"--hooks=[{hook}]")
    assert code == 2 and words in err and not out and not (workspace / "run").exists()


@pytest.mark.long
def test_a_hook_named_by_file_is_called_with_trainer_and_results(workspace, command):
    (workspace / "h.py").write_text(
        "from open_seq2seq.training.hooks import Hook\n\nclass H(Hook):\n"
        "    def after_step(self, trainer, results):\n"
        "        print('seen', trainer.step, float(results['loss']) > 0, float(results['learning_rate']) > 0)\n")
    code, out, _ = command(f"--hooks=['{workspace}/h.py:H']", "--max_steps=1")
    assert code == 0 and "seen 1 True True" in out


def edit(path, change):
    path.write_bytes(change(path.read_bytes()))


DATA = {
    "different numbers of lines": ("train.tgt", lambda text: text + b"a b c\n", ["200", "201"]),
    "invalid UTF-8": ("train.src", lambda text: text.replace(b"\n", b" \xff\n", 1), ["train.src", "1"]),
    "empty file": ("train.src", lambda text: b"", ["train.src"]),
    "vocabulary without tokens": ("vocab.txt", lambda text: b"", ["vocab.txt"]),
}


@pytest.mark.parametrize("name", DATA)
def test_bad_data_names_the_file(workspace, command, name):
    file, change, expected = DATA[name]
    edit(workspace / file, change)
    code, _, err = command("--mode=train")
    assert code == 2 and all(word in err for word in expected), err
    assert "Traceback" not in err
    assert not (workspace / "run").exists()


def test_empty_lines_are_dropped_in_training(workspace, command):
    for name in ("train.src", "train.tgt"):
        edit(workspace / name, lambda text: text + b"\n")
    assert command("--mode=train", "--max_steps=2")[0] == 0


def test_a_logdir_in_use_is_refused(workspace, command):
    (workspace / "run").mkdir()
    with open(workspace / "run" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = command("--mode=train")
    assert code == 2 and "in use" in err


def test_a_filled_logdir_is_not_overwritten(trained, command):
    code, _, err = command("--mode=train", "--max_steps=2")
    assert code == 2 and "--continue_learning" in err


def test_another_vocabulary_than_the_checkpoint(trained, command):
    edit(trained / "vocab.txt", lambda text: text[::-1].lstrip())
    code, _, err = command("--mode=infer", f"--infer_output_file={trained}/out.txt")
    assert code == 2 and "vocab.txt" in err
    edit(trained / "vocab.txt", lambda text: text.rstrip() + b"\ng\nh\n")
    code, _, err = command("--mode=infer", f"--infer_output_file={trained}/out.txt")
    assert code == 2 and "vocabulary" in err


@pytest.mark.long
def test_a_truncated_checkpoint_gives_way_to_the_one_before(workspace, command):
    assert command("--mode=train", "--max_steps=8")[0] == 0
    edit(workspace / "run" / "model.ckpt-8" / "weights.safetensors", lambda data: data[:-100])
    code, out, _ = command("--mode=train", "--continue_learning")
    assert code == 0 and "model.ckpt-8 is damaged" in out and "Resuming training at step 4" in out


@pytest.mark.long
def test_a_full_disk_keeps_the_earlier_checkpoints(workspace, command, monkeypatch):
    import errno

    import safetensors.numpy

    real, calls = safetensors.numpy.save_file, []

    def save_file(tensors, path, *args):
        calls.append(path)
        if len(calls) > 2:  # weights and optimizer of the first checkpoint
            raise OSError(errno.ENOSPC, "No space left on device")
        real(tensors, path, *args)

    monkeypatch.setattr(safetensors.numpy, "save_file", save_file)
    code, _, err = command("--mode=train")
    assert code == 2 and "No space left on device" in err
    assert [path.name for path in (workspace / "run").glob("model.ckpt-*")] == ["model.ckpt-4"]
    assert not list((workspace / "run").glob(".tmp-*"))
    monkeypatch.undo()
    assert command("--mode=train", "--continue_learning")[0] == 0


@pytest.mark.parametrize(("recipe", "script"), [
    ("text2text/toy-reversal/nmt-reversal-TT.py", "scripts/create_toy_data.py --output_dir=toy_text_data"),
    ("text2text/toy-several/reverse-and-copy.py", "scripts/create_toy_data.py"),
    ("text2text/toy-tables/summary.py", "scripts/create_toy_data.py --task=summary"),
    ("text2label/toy-labels.py", "scripts/create_toy_data.py --task=labels"),
    ("speech2text/toy-w2l.py", "scripts/create_toy_speech.py"),
    ("speech2text/jasper-Mini-for-Jetson.py", "scripts/import_librivox.py"),
    ("image2label/toy-resnet8.py", "scripts/create_toy_images.py"),
    ("image2label/resnet_commands.py", "scripts/prepare_speech_commands.py"),
    ("lm/toy-lm.py", "scripts/create_toy_text.py"),
    ("lm/lstm-wkt2-small.py", "wiki.train.tokens and wiki.valid.tokens in data/wikitext-2/"),
    ("transfer/sst-scratch-small.py", "data/sst/ with train, val")])
def test_missing_data_of_a_recipe_names_what_makes_them(recipe, script, tmp_path, monkeypatch, capfd):
    from open_seq2seq.cli import main

    monkeypatch.chdir(tmp_path)
    assert main([f"--config_file={ROOT}/example_configs/{recipe}", "--mode=train_eval"]) == 2
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("Error: ") and script in last and last.endswith(f"which is {tmp_path}.")

def test_a_config_that_checkpoints_cannot_hold_is_refused_before_training(workspace, command):
    with open(workspace / "config.py", "a") as config:
        config.write('\nbase_params["initializer"] = lambda shape, dtype=None: tf.zeros(shape)\n')
    code, _, err = command("--mode=train_eval")
    assert code == 2 and err.count("\n") == 1
    assert err.startswith("Error: 'initializer' is a lambda, which cannot be found by name")
    assert not (workspace / "run").exists()
