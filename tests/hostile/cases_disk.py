"""User files in places where the toolkit writes, replaces and deletes files: none of them may change.

Covers each name that the toolkit writes to, with each kind of user file that may be there.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator

from tests.hostile.case import (
    CONFIG,
    EVALUATE,
    INFER,
    RESUME,
    TRAIN_ANEW,
    Case,
    Expectation,
    Fault,
    Place,
    Refused,
    Said,
    Same,
    Works,
)
from tests.hostile.faults import (
    after,
    both,
    copy,
    hard_link,
    make_read_only,
    rename,
    replace_by_fifo,
    replace_by_file,
    replace_by_folder,
    replace_by_link,
    touch,
    write,
)

MINE = "the user's own\n"
# User files whose names the toolkit could mistake for its own.
VICTIM = both(write("victim/notes.txt", MINE), write("victim/.tmp-notes/diary.txt", MINE),
              write("victim/.tmp-replaced-model.ckpt-5/state.json", MINE), write("victim/x=1-step-3/state.json", "{}"),
              write("victim/model.ckpt-1/weights.safetensors", MINE), write("victim/copies.json", "{}"),
              write("victim/val_loss=9.0000-step-3/notes.txt", MINE), write("victim/step-3/image.png", MINE))
FOLDERS = ("best_models", "averaged_models", "logs", "language_models", "divergence", "samples")
# Keeps only one checkpoint, so that all others are removed.
KEEP_ONE = (*RESUME, "--num_checkpoints=1")
START_AGAIN = (CONFIG, "--mode=train_eval", "--no_dir_check", "--num_checkpoints=1")
TRAINING = {"going on": RESUME, "a new run": TRAIN_ANEW}
LOGDIRS = {"going on": "run", "a new run": "new"}


def link(name: str, target: str) -> Fault:
    """Replaces an entry by a symbolic link to a target, which is relative to the workspace's folder."""
    def fault(place: Place) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        replace_by_link(name, str(place / target))(place)

    return fault


def pipe(name: str) -> Fault:
    """Replaces an entry by a named pipe, and creates its parent folders."""
    def fault(place: Place) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        replace_by_fifo(name)(place)

    return fault


def of_folders() -> Iterator[Case]:
    """Yields cases in which a subfolder of a logdir is a symbolic link, a file or a pipe."""
    ways: dict[str, tuple[Callable[[str], Fault], str]] = {
        "a link to a folder": (lambda name: both(VICTIM, link(name, "victim")), "is a link"),
        "a link to nothing": (lambda name: link(name, "nothing"), "is a link"),
        "a file": (lambda name: replace_by_file(name, MINE), "is not a folder"),
        "a pipe": (pipe, "is not a folder"),
    }
    for when, command in TRAINING.items():
        for name in FOLDERS:
            for way, (fault, words) in ways.items():
                yield Case(f"{name} is {way}, {when}", command, Refused(f"{LOGDIRS[when]}/{name} {words}"),
                           fault=fault(f"{LOGDIRS[when]}/{name}"), quick=when == "going on" and "link" in way)
    for name in ("best_models", "language_models"):
        yield Case(f"{name} is a link, with --no_dir_check", (*START_AGAIN, "--max_steps=20"),
                   Refused(f"{name} is a link"), fault=both(VICTIM, link(f"run/{name}", "victim")),
                   keeps=["run/model*", "run/best*"])


def of_locks() -> Iterator[Case]:
    """Yields cases in which ``.lock`` is something other than the toolkit's lock file."""
    ways: dict[str, tuple[Callable[[str], Fault], Expectation]] = {
        "a link to a file": (lambda name: link(name, "dev.src"), Refused(".lock is a link, or not a file")),
        "a link to nothing": (lambda name: link(name, "nothing"), Refused(".lock is a link, or not a file")),
        "a pipe": (pipe, Refused(".lock is a link, or not a file")),
        "a folder": (lambda name: replace_by_folder(name, "notes.txt"), Refused(".lock is a link, or not a file")),
        "a user's file": (lambda name: replace_by_file(name, MINE), Refused("is not the lock")),
        "a file that begins as a lock": (lambda name: replace_by_file(name, "process 1 on host a\n" + MINE),
                                         Refused("is not the lock")),
        "another name of a user's file": (lambda name: both(write(name, ""), lambda place: (place / name).unlink(),
                                                            hard_link("dev.src", name)),
                                          Refused("is not the lock")),
    }
    for when, command in TRAINING.items():
        for way, (fault, expect) in ways.items():
            yield Case(f".lock is {way}, {when}", command, expect, fault=fault(f"{LOGDIRS[when]}/.lock"),
                       quick=when == "going on")
    yield Case(".lock is that of a process which has gone", RESUME, Same(),
               fault=replace_by_file("run/.lock", "process 1 on host elsewhere"), writes=["run/.lock"])
    yield Case(".lock is a link, which an evaluation does not read", EVALUATE, Same(),
               fault=link("run/.lock", "dev.src"))


def of_names() -> Iterator[Case]:
    """Yields cases with user files whose names look like the toolkit's but are not used by the run."""
    for folder in ("run", "run/best_models"):
        for name in (".tmp-notes", ".tmp-replaced-x", ".tmp-replaced-model.ckpt-10", ".tmp-old-model.ckpt-10",
                     ".tmp-model.ckpt-10-12-34", "x=1-step-3", "val_loss=9.0000-step-3", "val_loss=0.0001-step-3",
                     "model.ckpt-10", "diverged.ckpt-10", "model.ckpt-10.aside"):
            yield Case(f"a user's folder {folder}/{name}", KEEP_ONE, Same(),
                       fault=replace_by_folder(f"{folder}/{name}", "notes.txt", "state.json"))
        for name in (".tmp-notes", "val_loss=9.0000-step-3", "model.ckpt-10"):
            yield Case(f"a user's file {folder}/{name}", KEEP_ONE, Same(), fault=write(f"{folder}/{name}", MINE))
            yield Case(f"a user's link {folder}/{name}", KEEP_ONE, Same(),
                       fault=both(VICTIM, link(f"{folder}/{name}", "victim/model.ckpt-1")))
    unfinished = "run/.tmp-0123456789abcdef"
    yield Case("a killed run has left folders with links", RESUME, Same(), writes=[f"{unfinished}.new*"], fault=both(
        VICTIM, write(f"{unfinished}.new/half", ""), link(f"{unfinished}.new/more", "victim"),
        link(f"{unfinished}.new.json", "victim/notes.txt")))


def in_the_way() -> Iterator[Case]:
    """Yields cases in which a user file has the name of a checkpoint that the run is going to write."""
    ways: dict[str, Callable[[str], Fault]] = {
        "folder": lambda name: replace_by_folder(name, "thesis.tex"), "file": lambda name: write(name, MINE),
        "pipe": pipe, "link": lambda name: both(VICTIM, link(name, "victim"))}
    for way, fault in ways.items():
        yield Case(f"a user's {way} has the name of the next checkpoint", RESUME,
                   Refused("run/model.ckpt-80 has the name of a checkpoint, but is not one"),
                   fault=fault("run/model.ckpt-80"), quick=True)
        yield Case(f"a user's {way} gets the name of the next checkpoint meanwhile", RESUME,
                   Same("renamed to model.ckpt-80.aside"),
                   meanwhile=after("Restored checkpoint", fault("run/model.ckpt-80")))
        yield Case(f"a user's {way} has the name of a checkpoint, with --no_dir_check",
                   (*START_AGAIN, "--max_steps=20"),
                   Refused("run/model.ckpt-10 has the name of a checkpoint"), fault=fault("run/model.ckpt-10"))
    yield Case("best_models becomes a link while training goes on", RESUME, Said("has become a link"),
               fault=VICTIM, meanwhile=after("Restored checkpoint", both(
                   rename("run/best_models", "run/best"), link("run/best_models", "victim"))))


def inside() -> Iterator[Case]:
    """Yields cases with a user file in a folder of the toolkit's that is then removed."""
    for folder in ("run/model.ckpt-20", "run/model.ckpt-20/assets", "run/model.ckpt-60"):
        yield Case(f"notes of the user's in {folder}", KEEP_ONE, Same(), fault=write(f"{folder}/notes.txt", MINE))
        yield Case(f"a link of the user's in {folder}", KEEP_ONE, Same(),
                   fault=both(VICTIM, link(f"{folder}/more", "victim")))
        yield Case(f"a folder of the user's in {folder}", KEEP_ONE, Same(),
                   fault=write(f"{folder}/more/notes.txt", MINE))
    for name in ("weights.safetensors", "state.json", "config.yaml"):
        yield Case(f"{name} of a checkpoint that is removed has another name elsewhere", KEEP_ONE, Same(),
                   fault=hard_link(f"run/model.ckpt-20/{name}", f"kept/{name}"))
        yield Case(f"{name} of a checkpoint that is removed is a link", KEEP_ONE, Same(),
                   fault=replace_by_link(f"run/model.ckpt-20/{name}"))
    yield Case("the assets of a checkpoint that is removed are a link", KEEP_ONE, Same(),
               fault=both(copy("run/model.ckpt-20/assets", "mine"), link("run/model.ckpt-20/assets", "mine")))
    yield Case("a checkpoint that is removed may not be changed", KEEP_ONE, Same(),
               fault=make_read_only("run/model.ckpt-20"))


def of_other_runs() -> Iterator[Case]:
    """Yields cases with checkpoints of another origin in the logdir of a run."""
    keeps = ["run/model.ckpt-60*", "run/model.ckpt-40*", "run/best_models*"]
    for steps in (20, 30):
        yield Case(f"another run of {steps} steps in the logdir of a finished one",
                   (*START_AGAIN, f"--max_steps={steps}"), Said("is not empty"), keeps=keeps)
    yield Case("another run of as many steps in the logdir of a finished one", (*START_AGAIN, "--max_steps=60"),
               Said("renamed to model.ckpt-60.aside"), keeps=["run/best_models*"])
    yield Case("a benchmark in the logdir of a finished run", (CONFIG, "--benchmark", "--bench_steps=12"), Works(),
               keeps=["run/*"])
    yield Case("training from the weights of another run", (*TRAIN_ANEW, "--load_model=run", "--num_checkpoints=1"),
               Works(), keeps=["run/*"])
    yield Case("training in a checkpoint", (*RESUME, "--logdir=run/model.ckpt-60"),
               Refused("is a checkpoint: give its parent folder"), keeps=["run/*"], quick=True)
    yield Case("a new run in a checkpoint", (CONFIG, "--mode=train", "--logdir=run/model.ckpt-60"),
               Refused("is a checkpoint: give its parent folder"), keeps=["run/*"])
    yield Case("an evaluation of a checkpoint that is given as logdir", (*EVALUATE, "--logdir=run/model.ckpt-40"),
               Said("run/model.ckpt-40", "Finished evaluation"), keeps=["run/*"])
    yield Case("inference by a checkpoint that is given as logdir", (*INFER, "--logdir=run/model.ckpt-40"),
               Said("run/model.ckpt-40"), keeps=["run/*"])
    yield Case("inference by a checkpoint of a run with best models", (
        *INFER, "--logdir=run/model.ckpt-40", "--restore_best_checkpoint=True"), Said("run/model.ckpt-40"))


def of_inputs() -> Iterator[Case]:
    """Yields cases in which the input files of a run are in a folder that the run writes to."""
    for name in ("run/train.src", "run/best_models/train.src", "run/language_models/train.src", "run/logs/train.src",
                 "run/model.ckpt-20/train.src"):
        yield Case(f"the text lies in {name}", (
            *KEEP_ONE, f"--train_params/data_layer_params/source_file={name}",
            "--train_params/data_layer_params/target_file=train.tgt"), Works(),
            fault=both(write(name, ""), lambda place, name=name: shutil.copyfile(place / "train.src", place / name)))
    yield Case("the config lies in the logdir", ("--config_file=run/config.py", *RESUME[1:], "--enable_logs",
                                                 "--no_dir_check"), Works(), fault=copy("config.py", "run/config.py"))


def of_results() -> Iterator[Case]:
    """Yields cases with user files under the temporary names of result files."""
    name = f".tmp-{hashlib.sha256(b'out.txt').hexdigest()[:16]}.new.txt"
    refused = Refused("cannot be written")
    yield Case(f"{name} is a link to a file", INFER, refused, fault=link(name, "dev.src"))
    yield Case(f"{name} is a link to a folder", INFER, refused, fault=both(VICTIM, link(name, "victim")))
    yield Case(f"{name} is a pipe", INFER, refused, fault=pipe(name))
    yield Case(f"{name} is another name of a file", INFER, Same(), fault=hard_link("dev.src", name), writes=[name])
    yield Case(f"{name} was left by a killed process", INFER, Same(), fault=write(name, "half"), writes=[name])
    yield Case("a user's file has nearly the name of an unfinished one", INFER, Same(), fault=both(
        write(f"{name}.txt", MINE), write(".tmp-out.txt", MINE), write(".out.txt.unfinished", MINE)))
    yield Case("the results have another name elsewhere", INFER, Same(), writes=["out.txt"],
               fault=both(write("out.txt", MINE), hard_link("out.txt", "kept.txt")))


def of_caches() -> Iterator[Case]:
    """Yields cases with user files where caches and indexes are written."""
    for name, words in (("home/.cache/open_seq2seq", ""), ("home/.cache", "")):
        for way, fault in {"file": write(name, MINE), "link": both(VICTIM, link(name, "victim")),
                           "pipe": pipe(name)}.items():
            yield Case(f"a user's {way} stands for {name}", EVALUATE, Same(*filter(None, [words])),
                       fault=both(lambda place, name=name: replace_by_folder(name)(place), fault))
    for way, fault in {"file": write("new-index", MINE), "pipe": pipe("new-index")}.items():
        yield Case(f"a user's {way} stands where indexes go", (*EVALUATE, "--data_layer_params/index_dir=new-index"),
                   Refused("new-index"), fault=fault)
    yield Case("the text was changed, and an index of it has another name elsewhere", EVALUATE, Works(), fault=both(
        lambda place: [hard_link(f"index/{path.name}", f"kept/{path.name}")(place)
                       for path in (place / "index").glob("dev*.index")], touch("dev.src"), touch("dev.tgt")))


LM = "\\data\\\nngram 1=3\n\n\\1-grams:\n-0.5\t<s>\n-0.5\t</s>\n-0.5\tab\n\n\\end\\\n"
WITH_LM = ("--infer_params/decoder_params/use_language_model=True",)


def of_language_models() -> Iterator[Case]:
    """Yields cases in which a folder of the user's has the name of the folder for copies."""
    for when, command in TRAINING.items():
        folder = f"{LOGDIRS[when]}/language_models"
        mine = both(write(f"{folder}/words.arpa", LM), write(f"{folder}/notes.txt", MINE),
                    write(f"{folder}/infer.decoder_params.lm_path", MINE))
        yield Case(f"a user's folder language_models, {when}", command, Works(), task="speech", fault=mine)
        yield Case(f"the language model lies in a user's folder language_models, {when}", (
            *command, *WITH_LM, f"--infer_params/decoder_params/lm_path={folder}/words.arpa"),
            Said("no run has created"), task="speech", fault=mine)
        yield Case(f"the list of copies is a user's file, {when}", (
            *command, *WITH_LM, "--infer_params/decoder_params/lm_path=words.arpa"), Said("cannot be copied"),
            task="speech", fault=both(write("words.arpa", LM), write(f"{folder}/copies.json", MINE)))


CASES = [*of_folders(), *of_locks(), *of_names(), *in_the_way(), *inside(), *of_other_runs(), *of_inputs(),
         *of_results(), *of_caches(), *of_language_models()]
