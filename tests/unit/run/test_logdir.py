import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from open_seq2seq.checkpoints.folders import find_checkpoints, list_checkpoints
from open_seq2seq.checkpoints.original import OriginalFiles
from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.resolve import ResolvedConfig, RunOptions
from open_seq2seq.run.logdir import LogDirLock, check_logdir, write_mark
from open_seq2seq.run.logs import RunLogs, git_info
from open_seq2seq.utils.errors import UserError


def options(mode="train", **given) -> RunOptions:
    file = ConfigFile("/c.py", "M", {"base_params": {}})
    return RunOptions(mode, ResolvedConfig(file, mode), **given)


def checkpoint(*parts) -> Path:
    folder = Path(*map(str, parts))
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    return folder


def make(root: Path, what: str) -> Path:
    """Makes one of the situations a run can meet, and returns the log directory."""
    logdir = root / "log"
    if what == "file":
        logdir.write_text("")
    elif what != "missing":
        logdir.mkdir()
    if what == "locked":
        (logdir / ".lock").write_text("")
        (logdir / ".tmp-model.ckpt-5").mkdir()
        (logdir / "overview.txt").write_text("")  # of a run that failed before its first update
    if what == "foreign":
        (logdir / "notes.txt").write_text("")
    if what == "unfinished":
        (logdir / "model.ckpt-7").mkdir()
    if what in ("checkpoints", "best"):
        for step in (9, 10, 100):
            checkpoint(logdir, f"model.ckpt-{step}")
        checkpoint(logdir, ".tmp-model.ckpt-200")
        (logdir / "model.ckpt-300").mkdir()
    if what == "best":
        checkpoint(logdir, "best_models", "val_loss=1.2500-step-50")
        checkpoint(logdir, "best_models", "val_loss=1.5000-step-9")
        checkpoint(logdir, "best_models", "other-step-70")
    if what == "logs":
        checkpoint(logdir, "logs", "model.ckpt-8")
        (logdir / "stdout_x.log").write_text("")
    return logdir


TRAIN = [
    ("missing", {}, None), ("empty", {}, None), ("locked", {}, None),
    ("file", {}, "is a file"), ("foreign", {}, "is not empty: give --continue_learning"),
    ("checkpoints", {}, "is not empty"),
    ("missing", {"continue_learning": True}, "does not exist: leave the flag out"),
    ("empty", {"continue_learning": True}, "contains no checkpoint: leave the flag out"),
    ("locked", {"continue_learning": True}, "contains no checkpoint: leave the flag out"),
    ("foreign", {"continue_learning": True}, "there is no checkpoint"),
    ("unfinished", {"continue_learning": True}, "there is no checkpoint"),
    ("file", {"continue_learning": True}, "is a file"),
    ("checkpoints", {"continue_learning": True}, Path("model.ckpt-100")),
    ("best", {"continue_learning": True}, Path("model.ckpt-100")),
    ("logs", {"continue_learning": True, "enable_logs": True}, Path("logs/model.ckpt-8")),
    ("logs", {"continue_learning": True}, Path("logs/model.ckpt-8")),
    ("checkpoints", {"continue_learning": True, "enable_logs": True}, Path("model.ckpt-100")),
    ("logs", {}, "is not empty: give --continue_learning"),
]
OTHER = [
    ("missing", {}, "does not exist"), ("empty", {}, "contains no checkpoint"),
    ("locked", {}, "contains no checkpoint"), ("file", {}, "is a file"),
    ("foreign", {}, "There is no checkpoint"), ("unfinished", {}, "There is no checkpoint"),
    ("checkpoints", {}, Path("model.ckpt-100")), ("best", {}, Path("best_models/val_loss=1.2500-step-50")),
    ("logs", {"enable_logs": True}, Path("logs/model.ckpt-8")), ("logs", {}, Path("logs/model.ckpt-8")),
    ("checkpoints", {"enable_logs": True}, Path("model.ckpt-100")),
]
CASES = ([(mode, *case) for mode in ("train", "train_eval") for case in TRAIN]
         + [(mode, *case) for mode in ("eval", "infer", "interactive_infer") for case in OTHER])


@pytest.mark.parametrize(("mode", "what", "given", "expected"), CASES)
def test_situations(tmp_path, capsys, mode, what, given, expected):
    logdir = make(tmp_path, what)
    params = {"logdir": str(logdir), "restore_best_checkpoint": True}
    if isinstance(expected, str):
        with pytest.raises(UserError, match=expected):
            check_logdir(options(mode, **given), params)
        # The lenient run is warned of the same, and has no checkpoint.
        lenient = check_logdir(options(mode, **given, no_dir_check=True), params)
        assert lenient.checkpoint is None
        assert "*** WARNING: " in (out := capsys.readouterr().out) and expected in out
        return
    found = check_logdir(options(mode, **given), params)
    in_logs = what == "logs" if expected else given.get("enable_logs", False)  # wherever the checkpoints are
    folder = logdir / "logs" if in_logs else logdir
    assert (found.root, found.checkpoint_dir) == (logdir, folder)
    assert found.checkpoint == (logdir / expected if expected else None)
    assert capsys.readouterr().out == ""


def test_the_start_of_a_run_is_begun_anew(tmp_path):
    """Under its name, or under another one if the config has changed; no file is touched."""
    params, resumes = {"logdir": str(tmp_path / "log")}, options(continue_learning=True)
    logdir = make(tmp_path, "foreign")
    write_mark(logdir, "a run", options())
    checkpoint(logdir, "best_models", "val_loss=1.2500-step-50")
    with pytest.raises(UserError, match="is not empty: give --continue_learning"):
        check_logdir(options(), params)
    before = sorted(logdir.rglob("*"))
    found = check_logdir(resumes, params)
    assert (found.checkpoint, found.run, found.begins_anew) == (None, "a run", True)
    other = RunOptions("train", ResolvedConfig(ConfigFile("/c.py", "M", {"base_params": {"max_steps": 3}}), "train"),
                       continue_learning=True)
    found = check_logdir(other, params)
    assert found.run != "a run" and found.begins_anew and sorted(logdir.rglob("*")) == before
    made = checkpoint(logdir, "model.ckpt-7")
    found = check_logdir(resumes, params)
    assert found.checkpoint == made and not found.begins_anew


@pytest.mark.parametrize("content", ["", "null", "[]", "{", '{"run": 1, "config_sha256": ""}'])
def test_a_file_with_the_name_of_the_mark_is_no_mark(tmp_path, content):
    logdir = make(tmp_path, "foreign")
    (logdir / ".run-start.json").write_text(content)
    with pytest.raises(UserError, match="there is no checkpoint"):
        check_logdir(options(continue_learning=True), {"logdir": str(logdir)})
    with pytest.raises(UserError, match="run-start.json"):
        write_mark(logdir, "a run", options())


def test_a_full_disk_is_reported_before_a_run_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "host")  # the lock names it, and has to have room
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room, file in ((0, ".lock"), (80, ".run-start.json")):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limit[1]))
        try:
            with pytest.raises(UserError, match=rf"{tmp_path}/new cannot be written: File too large \(.*{file}\)"):
                with LogDirLock(tmp_path / "new"):
                    write_mark(tmp_path / "new", "a run", options())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert os.listdir(tmp_path) == []


def test_the_flag_decides_between_two_folders_of_checkpoints(tmp_path):
    logdir = make(tmp_path, "logs")
    checkpoint(logdir, "model.ckpt-9")
    for mode, resumes in (("eval", False), ("train", True)):
        for flag, expected in ((True, logdir / "logs" / "model.ckpt-8"), (False, logdir / "model.ckpt-9")):
            given = options(mode, enable_logs=flag, continue_learning=resumes)
            assert check_logdir(given, {"logdir": str(logdir)}).checkpoint == expected


def test_a_base_model_is_found_in_the_subfolder(tmp_path):
    make(tmp_path, "logs")
    params = {"logdir": str(tmp_path / "new"), "load_model": str(tmp_path / "log")}
    for flag in (False, True):
        found = check_logdir(options(enable_logs=flag), params)
        assert found.base_checkpoint == tmp_path / "log" / "logs" / "model.ckpt-8"
        assert found.checkpoint_dir == (tmp_path / "new" / "logs" if flag else tmp_path / "new")


def test_best_only_when_asked_for(tmp_path):
    logdir = make(tmp_path, "best")
    assert check_logdir(options("eval"), {"logdir": str(logdir)}).checkpoint == logdir / "model.ckpt-100"


FOLDERS = ["best_models", "averaged_models", "logs", "language_models", "divergence", "samples"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_a_run_is_no_link_and_no_file(tmp_path, name):
    """Links when training is resumed: see ``tests/hostile/cases_disk.py``."""
    logdir = make(tmp_path, "checkpoints")
    (logdir / name).write_text("mine")
    for lenient in (False, True):
        with pytest.raises(UserError, match=f"{name} is not a folder"):
            check_logdir(options(continue_learning=True, no_dir_check=lenient), {"logdir": str(logdir)})
    (logdir / name).unlink()
    (logdir / name).symlink_to(tmp_path)
    with pytest.raises(UserError, match=f"{name} is a link"):
        check_logdir(options("eval", no_dir_check=True), {"logdir": str(logdir)})


def test_a_users_folder_with_the_name_of_a_later_checkpoint_is_refused(tmp_path):
    """Files, pipes and links: see ``tests/hostile/cases_disk.py``."""
    logdir = make(tmp_path, "checkpoints")
    (logdir / "model.ckpt-102").mkdir()
    (logdir / "model.ckpt-102/thesis.tex").write_text("dear")
    for lenient in (False, True):
        with pytest.raises(UserError, match="model.ckpt-102 has the name of a checkpoint, but is not one"):
            check_logdir(options(continue_learning=True, no_dir_check=lenient), {"logdir": str(logdir)})
    check_logdir(options("eval"), {"logdir": str(logdir)})
    (logdir / "model.ckpt-102").rename(logdir / "model.ckpt-20")  # no run comes to that name
    assert check_logdir(options(continue_learning=True), {"logdir": str(logdir)}).checkpoint is not None
    with pytest.raises(UserError, match="model.ckpt-20 has the name"):
        check_logdir(options(no_dir_check=True), {"logdir": str(logdir)})


def test_a_damaged_checkpoint_is_not_refused_as_a_users_folder(tmp_path):
    logdir = make(tmp_path, "checkpoints")
    (checkpoint(logdir, "model.ckpt-102") / "state.json").rename(logdir / "model.ckpt-102/weights.safetensors")
    assert check_logdir(options(continue_learning=True), {"logdir": str(logdir)}).checkpoint is not None


def test_a_checkpoint_as_logdir(tmp_path):
    made = checkpoint(tmp_path, "run", "model.ckpt-3")
    params = {"logdir": str(made)}
    assert check_logdir(options("eval"), params).checkpoint == made
    for given in ({}, {"continue_learning": True}):
        with pytest.raises(UserError, match=f"is a checkpoint: give its parent folder {tmp_path}/run to"):
            check_logdir(options(**given), params)
    with pytest.raises(UserError, match="is a checkpoint"), LogDirLock(made):
        pass
    assert os.listdir(made) == ["state.json"]


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_no_logdir(mode, capsys):
    with pytest.raises(UserError, match="'logdir' is missing"):
        check_logdir(options(mode), {"logdir": ""})
    assert check_logdir(options(mode, benchmark=True), {"logdir": ""}).root is None


def test_nothing_is_written(tmp_path):
    check_logdir(options(), {"logdir": str(tmp_path / "new")})
    assert os.listdir(tmp_path) == []


def test_checkpoints_newest_first(tmp_path):
    logdir = make(tmp_path, "best")
    assert [path.name for path in list_checkpoints(logdir)] == ["model.ckpt-100", "model.ckpt-10", "model.ckpt-9"]
    best = list_checkpoints(logdir / "best_models", best=True)
    assert [path.name for path in best] == ["val_loss=1.2500-step-50", "val_loss=1.5000-step-9"]
    assert list_checkpoints(logdir / "missing") == []


@pytest.mark.parametrize("name", ["Eval_BLEU_Score=27.1234-step-3", "val_loss=-0.5000-step-3", "val_loss=nan-step-3",
                                  "val_loss=1e-05-step-3"])
def test_names_of_best_checkpoints(tmp_path, name):
    made = checkpoint(tmp_path, "best_models", name)
    assert find_checkpoints(tmp_path, restore_best=True)[0] == made


@pytest.mark.parametrize(("what", "given", "expected"), [
    ("missing", {}, "'load_model' is .*, which does not exist"), ("empty", {}, "contains no checkpoint"),
    ("file", {}, "is a file"),
    ("foreign", {}, "There is no checkpoint"),
    ("best", {}, Path("best_models/val_loss=1.2500-step-50")), ("logs", {}, Path("logs/model.ckpt-8")),
    ("checkpoints", {"enable_logs": True}, Path("model.ckpt-100")),
    ("logs", {"enable_logs": True}, Path("logs/model.ckpt-8")),
])
def test_load_model(tmp_path, capsys, what, given, expected):
    base = make(tmp_path, what)
    params = {"logdir": str(tmp_path / "new"), "load_model": str(base), "restore_best_checkpoint": True}
    if isinstance(expected, str):
        with pytest.raises(UserError, match=expected):
            check_logdir(options(**given), params)
        assert check_logdir(options(**given, no_dir_check=True), params).base_checkpoint is None
    else:
        assert check_logdir(options(**given), params).base_checkpoint == base / expected


def test_load_model_gives_way_to_a_checkpoint_of_the_run(tmp_path):
    logdir = make(tmp_path, "checkpoints")
    params = {"logdir": str(logdir), "load_model": str(tmp_path / "missing")}
    assert check_logdir(options(continue_learning=True), params).base_checkpoint is None
    assert check_logdir(options("eval"), params).base_checkpoint is None


def test_load_model_may_be_one_checkpoint(tmp_path):
    made = checkpoint(tmp_path, "base", "model.ckpt-3")
    assert check_logdir(options(), {"logdir": str(tmp_path / "new"), "load_model": str(made)}).base_checkpoint == made


def test_load_model_may_be_a_folder_with_checkpoints_of_the_original(tmp_path):
    for number in (900, 1000):
        (tmp_path / f"model.ckpt-{number}.index").write_bytes(b"")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/absent/model.ckpt-900"')
    params = {"logdir": str(tmp_path / "new"), "load_model": str(tmp_path)}
    assert check_logdir(options(), params).base_checkpoint == OriginalFiles(tmp_path / "model.ckpt-1000")
    own = checkpoint(tmp_path, "model.ckpt-1000")  # a checkpoint of this package goes first
    assert check_logdir(options(), params).base_checkpoint == own
    assert check_logdir(options(), {**params, "load_model": str(own)}).base_checkpoint == own


HOLD = """
import sys, time
from open_seq2seq.run.logdir import LogDirLock
with LogDirLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.long
def test_lock_keeps_others_out_and_dies_with_its_process(tmp_path, monkeypatch):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"in use by process {holder.pid} on host "), LogDirLock(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
    with LogDirLock(tmp_path):
        with pytest.raises(UserError, match=f"process {os.getpid()} on"), LogDirLock(tmp_path):
            pass
    monkeypatch.setenv("HOME", str(tmp_path))
    with LogDirLock("~"), LogDirLock(None):
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on host")


@pytest.mark.parametrize("written", ["", "process", "process 12", "process 12 on host a-b.c"])
def test_lock_of_a_process_that_has_gone_is_taken(tmp_path, written):
    """Files of the user's with this name: see ``tests/hostile/cases_disk.py``."""
    (tmp_path / ".lock").write_text(written)  # the power may have failed before all of it was on the disk
    with LogDirLock(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on host")


def test_lock_makes_the_folder_or_says_why_not(tmp_path):
    with LogDirLock(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file: choose another"), LogDirLock(tmp_path / "file"):
        pass
    with pytest.raises(UserError, match="cannot be written"), LogDirLock(tmp_path / "file" / "below"):
        pass


def run_files(root: Path) -> dict[str, str]:
    return {path.name.split("_")[0]: path.read_text() for path in root.iterdir()}


def test_run_logs(tmp_path, capsys, monkeypatch):
    (tmp_path / "config.py").write_text("base_params = {}\n")
    monkeypatch.chdir(tmp_path)
    before = sys.stdout, sys.stderr
    with RunLogs(tmp_path / "log", [str(tmp_path / "config.py")], ["--a=b c", "--d"]):
        print("to stdout")
        sys.stderr.write("to stderr\n")
        assert sys.stdout.isatty() is False
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ("to stdout\n", "to stderr\n")
    files = run_files(tmp_path / "log")
    assert files == {"config": "base_params = {}\n", "cmd-args": "'--a=b c' --d\n", "stdout": "to stdout\n",
                     "stderr": "to stderr\n"}
    name = next(p.name for p in (tmp_path / "log").iterdir() if p.name.startswith("config"))
    assert name.endswith(".py") and len(name) == len("config_YYYY-MM-DD_HH-MM-SS.py")


def test_run_logs_contain_the_bases_of_a_config(tmp_path):
    for name, text in {"de/big.py": "base_model = 'M'\nbase_params = {'a': 1, 'b': 1}\n",
                       "es/small.py": "base_config = '../de/big.py'\nbase_params = {'b': 2}\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    config = load_config(tmp_path / "es/small.py")
    with RunLogs(tmp_path / "log", config.files, []):
        pass
    shutil.rmtree(tmp_path / "de")
    copy, = (tmp_path / "log").glob("config_*/es/small.py")
    assert load_config(copy).sections == config.sections == {"base_params": {"a": 1, "b": 2}}


def test_run_logs_replace_nothing(tmp_path):
    """Not even the config that is in use, where it lies under the very name that its copy would get."""
    (tmp_path / "config.py").write_text("base_params = {}\n")
    names = set()
    for number in range(3):
        with RunLogs(tmp_path / "log", [str(tmp_path / "config.py")], [str(number)]):
            print(number)
        names |= {path.name for path in (tmp_path / "log").iterdir() if path.name.startswith("stdout")}
    assert len(names) == 3 and [(tmp_path / "log" / name).read_text() for name in sorted(names, key=len)]
    texts = {(tmp_path / "log" / name).read_text() for name in names}
    assert texts == {"0\n", "1\n", "2\n"}


@pytest.mark.parametrize(("error", "expected"), [
    (ValueError("a bug"), "Traceback"), (UserError("a slip"), "Error: a slip")])
def test_run_logs_record_the_error_that_ends_the_run(tmp_path, error, expected):
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(type(error)), RunLogs(tmp_path / "log", [str(tmp_path / "config.yaml")], []):
        raise error
    assert run_files(tmp_path / "log")["stderr"].startswith(expected)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_info(tmp_path):
    assert git_info(str(tmp_path)) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "file").write_text("one\n")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "m"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "file").write_text("two\n")
    text = git_info(str(tmp_path))
    assert text is not None and text.startswith("commit hash: ") and "-one\n+two\n" in text


def test_run_logs_in_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--enable_logs cannot write"):
        RunLogs(tmp_path / "file", [__file__], []).__enter__()
