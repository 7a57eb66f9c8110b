import errno
import os
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
import tensorflow as tf

from open_seq2seq import cli
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

ROOT = Path(__file__).parents[2]
CONFIG = """
base_model: Text2Text
base_params: {logdir: somewhere, max_steps: 10, batch_size_per_gpu: 4}
eval_params: {batch_size_per_gpu: 2}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    monkeypatch.setattr("open_seq2seq.run.resolution.describe_model", lambda *_: None)
    return f"--config_file={path}"


@pytest.fixture
def ran(monkeypatch):
    """The options of the runs that the command started; ``ran.result`` is returned or raised."""
    session = types.ModuleType("session")
    runs = types.SimpleNamespace(options=[], result=None)

    def run(options):
        runs.options.append(options)
        if isinstance(runs.result, BaseException):
            raise runs.result
        return types.SimpleNamespace(signum=runs.result)

    session.run = run
    import open_seq2seq.run as package

    monkeypatch.setitem(sys.modules, "open_seq2seq.run.session", session)
    monkeypatch.setattr(package, "session", session, raising=False)
    return runs


def test_defaults(config, ran):
    assert cli.main([config]) == 0
    (options,) = ran.options
    assert (options.mode, options.infer_output_file, options.config.benchmark) == ("train", "infer-out.txt", None)
    assert "use_xla_jit" not in options.config.params("train")
    assert not (options.continue_learning or options.no_dir_check or options.benchmark or options.enable_logs
                or options.check)
    assert options.argv == [config]


def test_flags_and_values(config, ran):
    arguments = [config, "--mode", "train_eval", "--continue_learning", "--enable_logs=True", "--check=False",
                 "--use_xla_jit", "--batch_size_per_gpu=8", "--lr_policy_params/learning_rate", "1e-3",
                 "--bench_start=3", "--eval_steps=5"]
    assert cli.main(arguments) == 0
    (options,) = ran.options
    assert options.continue_learning and options.enable_logs and not options.check
    for section in ("train", "eval"):
        params = options.config.params(section)
        assert (params["batch_size_per_gpu"], params["use_xla_jit"], params["bench_start"]) == (8, True, 3)
        assert params["lr_policy_params"] == {"learning_rate": 1e-3}


@pytest.mark.parametrize("value", [True, False])
def test_xla_on_the_command_line_replaces_the_value_of_the_config(config, ran, value):
    assert cli.main([config, f"--use_xla_jit={value}"]) == 0
    assert ran.options[0].config.params("train")["use_xla_jit"] is value


def test_config_has_a_short_name(config, ran):
    assert cli.main([config.replace("--config_file", "--config")]) == 0


def test_benchmark(config, ran):
    assert cli.main([config, "--mode=eval", "--benchmark", "--bench_steps=17"]) == 0
    (options,) = ran.options
    assert options.mode == "train" and options.no_dir_check
    assert options.config.params("train")["max_steps"] == 17


def test_a_benchmark_times_some_updates(config, ran, capsys):
    assert cli.main([config, "--benchmark", "--bench_steps=10"]) == 2
    assert "the first 10 updates (--bench_start) are not timed" in capsys.readouterr().err


def test_the_reason_of_an_exit_is_printed(monkeypatch, capsys):
    def end(arguments):
        raise SystemExit("enough")

    monkeypatch.setattr(cli, "_run", end)
    assert cli.main([]) == 1 and capsys.readouterr().err == "enough\n"


@pytest.mark.parametrize(("arguments", "text"), [
    (["--mode=trian"], "Error: The mode is 'trian'"), (["--mode=reprot"], "Did you mean 'report'?"),
    (["--mode=infer", "--infer_output_file="], "--infer_output_file is empty"),
    (["--mode=infer", "--infer_output_file=/"], "which is a folder"),
    (["--mode=infer", f"--infer_output_file={__file__}/out.txt"], "is a file, not a folder"),
    (["--bench_steps=0"], "--bench_steps must be a positive integer, got '0'."),
    (["--bench_start=-1"], "--bench_start must be an integer of at least 0, got '-1'."),
    (["--check=maybe"], "--check must be either True or False"), (["stray"], "'stray' is not understood"),
    (["--continue_lerning"], "Did you mean '--continue_learning'?"),
    (["--output_file=x"], "Did you mean '--infer_output_file'?"),
    (["--logdir/x=1"], "'logdir' is 'somewhere', not a dict"),
    (["--num_epochs=3", "--max_steps=2"], "only one of them"),
    (["--dtype=float16"], "mixed_float16"),
    (["--sweep_processes=2"], "--sweep_processes is for sweeps: add --sweep key=value,value"),
    (["--sweep_processes=1", "--mode=infer"], "--sweep_processes is for sweeps"),
])
def test_mistakes_on_the_command_line(config, ran, capsys, arguments, text):
    assert cli.main([config, *arguments]) == 2
    errors = capsys.readouterr().err
    assert text in errors and errors.startswith("Error: ") and errors.count("\n") == 1
    assert ran.options == []


def test_an_output_file_that_cannot_be_written_is_known_before_decoding(config, ran, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda *_: False)
    assert cli.main([config, "--mode=infer", f"--infer_output_file={tmp_path}/new/out.txt"]) == 2
    assert f"but {tmp_path} cannot be written" in capsys.readouterr().err and ran.options == []


def test_config_file_is_needed_and_has_to_exist(tmp_path, capsys):
    for arguments, words in (([], "required: --config_file. See"), (["my.py"], "Did you mean --config_file=my.py?"),
                             (["--logdir=run"], "To resume the run in run, give --continue_learning.")):
        assert cli.main(arguments) == 2
        assert words in capsys.readouterr().err
    assert cli.main([f"--config_file={tmp_path / 'none.py'}"]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "lines"), [
    (ConfigError(["one", "two"]), ["Error: one", "Error: two"]),
    (DataError("file:3 is\nbad"), ["Error: file:3 is bad"]),
    (UserError("slip"), ["Error: slip"]), (UserError("a name \x1b[31mred"), ["Error: a name \\x1b[31mred"]),
    (OSError(errno.ENAMETOOLONG, "File name too long", "xxx"), ["Error: xxx: File name too long: choose a shorter"]),
    (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"), ["Error: The device ran out of memory"]),
    (tf.errors.ResourceExhaustedError(None, None, "{{function_node __wrapped__WriteFile_device_/job:localhost}} "
                                      "run/a.png; No space left on device [Op:WriteFile]"),
     ["Error: run/a.png: No space left on device: free some space."]),
])
def test_errors_of_a_run_are_sentences(config, ran, capsys, error, lines):
    ran.result = error
    assert cli.main([config]) == 2
    found = capsys.readouterr().err.splitlines()
    assert len(found) == len(lines) and all(a.startswith(b) for a, b in zip(found, lines, strict=True))


def test_interrupt_and_exit_codes(config, ran):
    ran.result = KeyboardInterrupt()
    assert cli.main([config]) == 130
    ran.result = 15
    assert cli.main([config]) == 143


def test_bugs_keep_their_traceback(config, ran):
    ran.result = ZeroDivisionError("bug")
    with pytest.raises(ZeroDivisionError):
        cli.main([config])


def test_an_error_between_updates_is_a_sentence_where_a_users_file_is_involved(config, ran, capsys):
    ran.result = ValueError("no luck")
    ran.result.add_note("Training ended after step 3.")
    assert cli.main([config]) == 2  # raised in this file, which is not the package's
    assert re.fullmatch(rf"Error: {re.escape(__file__)}, line \d+: ValueError: no luck. Training ended after step 3.\n",
                        capsys.readouterr().err)


def test_an_error_of_the_toolkit_itself_keeps_its_traceback():
    with pytest.raises(TypeError) as caught:
        cli.parse_options(None)
    error = caught.value
    error.__traceback__ = error.__traceback__.tb_next  # the package alone
    error.add_note("Training ended after step 3, which is saved: resume with --continue_learning.")
    assert cli._explained(error) is None


def test_help_has_every_flag_and_examples(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for flag in ("config_file", "mode", "infer_output_file", "continue_learning", "no_dir_check", "benchmark",
                 "bench_steps", "bench_start", "enable_logs", "use_xla_jit", "check"):
        assert f"--{flag}" in out
    assert "lr_policy_params/learning_rate" in out and "python run.py" in out


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    clean = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          env={**clean, **environment})


def test_help_and_mistakes_need_no_tensorflow():
    code = ("import sys\nfrom open_seq2seq.cli import main\nrc = main(['--help']) or main(['--config=none.py'])\n"
            "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules\nsys.exit(rc)")
    done = run_python("-c", code)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_run_py_and_module_are_the_command():
    for program in (["run.py"], ["-m", "open_seq2seq"]):
        done = run_python(*program, "--mode=x", "--config_file=y")
        assert done.returncode == 2 and done.stderr.startswith("Error: The mode is 'x'"), done.stderr


@pytest.mark.long
def test_tensorflow_is_imported_in_silence():
    code = ("from open_seq2seq.utils.tensorflow_import import import_tensorflow\nimport_tensorflow()\nimport sys\n"
            "sys.stderr.write('after')")
    assert run_python("-c", code).stderr == "after"


BROKEN = "import os\nos.write(2, b'C++ says why\\n')\nraise ImportError('libtensorflow is broken')\n"


def test_broken_tensorflow_is_one_sentence_after_its_own_words(tmp_path):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(BROKEN)
    (tmp_path / "config.py").write_text("")
    done = run_python("run.py", f"--config_file={tmp_path / 'config.py'}", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 2
    assert done.stderr.startswith("C++ says why\nError: TensorFlow cannot be imported (libtensorflow is broken)")
    assert "open-seq2seq[cpu]" in done.stderr and "open-seq2seq[gpu]" in done.stderr


@pytest.mark.parametrize(("words", "files", "output", "mode"), [
    (["translate", "run"], ["-"], "/dev/stdout", "infer"),
    (["transcribe", "run", "a", "-", "--x=1"], ["a", "-"], "/dev/stdout", "infer"),
    (["classify", "run", "--output", "out.csv", "--x", "1"], ["-"], "out.csv", "infer"),
])
def test_verbs(monkeypatch, words, files, output, mode):
    asked = []
    monkeypatch.setattr(cli.Run, "perform", lambda run, mode, **options: asked.append((run, mode, options)))
    monkeypatch.setattr(cli, "STANDARD_OUTPUT", "/dev/stdout")
    monkeypatch.setattr(cli, "print_to_stderr", lambda: None)
    assert cli.main(words) == 0
    ((run, asked_mode, options),) = asked
    assert (options["verb"], options["infer_files"], options["infer_output_file"]) == (words[0], files, output)
    assert asked_mode == mode and "logdir='run'" in repr(run) and ("'x': 1" in repr(run)) == ("1" in words[-1])


def test_packed_models_are_members_of_an_ensemble_like_folders(monkeypatch, tmp_path):
    """A pipe is not, and nothing is read from it."""
    asked = []
    monkeypatch.setattr(cli.Run, "perform", lambda run, mode, **options: asked.append((run, options["infer_files"])))
    with zipfile.ZipFile(tmp_path / "a.zip", "w"):
        (tmp_path / "text").write_text("a b c\n")
    os.mkfifo(tmp_path / "pipe")
    for file in ("text", "pipe"):
        assert cli.main(["translate", "run", f"{tmp_path}/a.zip", "toy:reversal", f"{tmp_path}/{file}"]) == 0
        assert f"logdir=['run', '{tmp_path}/a.zip', 'toy:reversal']" in repr(asked[-1][0])
        assert asked[-1][1] == [f"{tmp_path}/{file}"]


@pytest.mark.parametrize("words", [["translate", "run"], ["--mode=infer", "--logdir=run", "--infer_output_file=-"]])
def test_messages_that_cannot_be_printed_do_not_end_a_command_with_results(monkeypatch, words):
    def perform(run, mode, **options):
        print("a message", flush=True)
        return types.SimpleNamespace(signum=None)

    monkeypatch.setattr(cli.Run, "perform", perform)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        assert cli.main(words) == 0


@pytest.mark.parametrize(("words", "said"), [
    (["translate", "run", "--output="], "--output is empty"),
    (["translate"], "translate LOGDIR"), (["translate", "--logdir=run"], "translate LOGDIR"),
    (["traslate", "run"], "'traslate' is not understood. Did you mean 'translate'?"),
    (["transcrive", "run"], "Did you mean 'transcribe'?"),
])
def test_mistakes_in_verbs(capsys, words, said):
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("verb", cli.VERBS)
def test_verbs_have_their_own_help(capsys, verb):
    assert cli.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"run.py {verb} LOGDIR" in shown and "--output" in shown
