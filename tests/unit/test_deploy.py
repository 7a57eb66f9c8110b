"""The files of deploy/ and the commands of its pages are true to the command line and to the repository."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from open_seq2seq.run.logdir import START_MARK

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
INSTALLED = "/opt/openseq2seq/"  # where the image has the repository
RECIPE = "example_configs/text2text/toy-reversal/nmt-reversal-TT.py"
PAGES = [ROOT / "README.md", ROOT / "docs" / "distributed.md", ROOT / "docs" / "clusters.md"]
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".dockerignore")
SCRIPTS = [path for path in FILES if path.suffix in (".sh", ".sbatch")]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def documents(name: str) -> dict[str, dict]:
    """The YAML documents of a file, by kind."""
    loaded = list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))
    return {document["kind"]: document for document in loaded}


def strings(value: object) -> Iterator[str]:
    """All strings inside a YAML document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def shell_text(path: Path) -> str:
    """What of a file a shell would read."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    if path.suffix == ".yaml":
        return "\n".join(s for document in yaml.safe_load_all(text) for s in strings(document) if " " in s)
    return text


def commands(path: Path) -> list[list[str]]:
    """The arguments of every ``run.py`` of a file."""
    found = []
    for line in re.sub(r"\\\n\s*", " ", shell_text(path)).splitlines():
        words = shlex.split(line, comments=True) if "run.py" in line and not line.startswith("#") else []
        for number, word in enumerate(words):
            if word.endswith("run.py"):
                found.append([w for w in words[number + 1:] if w != "&"])
    return found


def resolved(argument: str) -> str:
    """With the recipe for a placeholder, and the repository for its place in the image."""
    argument = re.sub(r"=(\$CONFIG|config\.py|…)$", f"={RECIPE}", argument.replace('"', ""))
    return argument.replace("=" + INSTALLED, "=").replace("$LOGDIR", "run")


@pytest.mark.parametrize("path", [*PAGES, *FILES], ids=relative)
def test_every_command_is_accepted(path, monkeypatch):
    from open_seq2seq.cli import parse_options
    from open_seq2seq.utils.errors import ConfigError

    monkeypatch.chdir(ROOT)
    for arguments in commands(path):
        if not any(argument.startswith("--config_file") for argument in arguments):
            # The config is in the logdir.
            from_logdir = {"--mode=infer", "--infer_files"} <= {*arguments} or "--mode=report" in arguments
            is_verb = arguments[0] in ("translate", "classify", "transcribe")
            assert arguments == ["--help"] or "…" in arguments or from_logdir or is_verb, arguments
            continue
        try:
            options = parse_options([resolved(argument) for argument in arguments])  # raises for unknown flags and keys
        except ConfigError as error:
            missing = re.compile(r"'\w*data_layer_params/.* but the file \S+ does not exist\.")
            assert all(map(missing.match, error.problems)), error
        else:
            assert options.mode in ("train", "train_eval", "eval", "infer")


def test_commands_are_found():
    assert all(commands(path) for path in PAGES)
    for name in ("kubernetes/mpijob.yaml", "kubernetes/multiworker.yaml", "slurm/train.sbatch",
                 "slurm/multiworker.sbatch"):
        [arguments] = commands(DEPLOY / name)
        uses_horovod = "--use_horovod=True" in arguments
        assert uses_horovod == (name in ("kubernetes/mpijob.yaml", "slurm/train.sbatch")), name


@pytest.mark.parametrize("path", [*PAGES, *FILES], ids=relative)
def test_every_path_exists(path):
    text = path.read_text(encoding="utf-8")
    folders = "deploy|scripts|benchmarks|example_configs|docs"
    for name in re.findall(rf"(?<![\w/.])(?:{INSTALLED})?((?:{folders})/[\w./-]+\w)", text):
        assert (ROOT / name).exists(), f"{relative(path)}: {name}"


@pytest.mark.parametrize("path", SCRIPTS, ids=relative)
def test_scripts_are_well_formed(path):
    shell = "sh" if path.read_text(encoding="utf-8").startswith("#!/bin/sh") else "bash"
    subprocess.run([shell, "-n", str(path)], check=True)
    assert path.suffix == ".sbatch" or path.stat().st_mode & stat.S_IXUSR


def test_the_mpijob():
    job = documents("kubernetes/mpijob.yaml")["MPIJob"]
    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"} and replicas["Launcher"]["replicas"] == 1
    [text] = [s for s in strings(replicas["Launcher"]) if "mpiexec" in s]
    assert f"-np {replicas['Worker']['replicas'] * job['spec']['slotsPerWorker']} " in text
    for replica in replicas.values():
        check_pod(replica["template"]["spec"])
    assert replicas["Worker"]["template"]["spec"]["containers"][0]["command"][0] == "/usr/sbin/sshd"
    assert "openssh-server" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def test_the_multiworker_job():
    kinds = documents("kubernetes/multiworker.yaml")
    service, job = kinds["Service"], kinds["Job"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    [text] = [s for s in strings(job) if "tf_config.sh" in s]
    hosts = re.findall(r"\S+-\d+\.\S+", text)
    assert hosts == [f"{job['metadata']['name']}-{i}.{pod['subdomain']}" for i in range(spec["completions"])]
    [port] = service["spec"]["ports"]
    assert f"PORT:-{port['port']}" in (DEPLOY / "tf_config.sh").read_text(encoding="utf-8")
    check_pod(pod)


SERVERS = ["serving/compose.yaml", "kubernetes/server.yaml"]


def server_of(name: str) -> dict:
    """The container of the server, with the keys of Kubernetes."""
    document = yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))
    if "compose" in name:
        service = next(document)["services"]["server"]
        return {"command": service["command"], "args": [], "image": service["image"],
                "limits": service["deploy"]["resources"]["limits"], "grace": int(service["stop_grace_period"][:-1]),
                "health": [service["healthcheck"]["test"][-1]], "reads_only": service["read_only"]}
    pod = documents(name)["Deployment"]["spec"]["template"]["spec"]
    check_pod(pod)
    [container] = pod["containers"]
    probes = [container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")]
    return {**container, "limits": container["resources"]["limits"], "grace": pod["terminationGracePeriodSeconds"],
            "health": probes, "reads_only": container["securityContext"]["readOnlyRootFilesystem"]}


@pytest.mark.parametrize("name", SERVERS)
def test_the_server(name):
    container = server_of(name)
    words = [*container["command"], *container["args"]]
    assert words[:3] == ["python", INSTALLED + "run.py", "serve"] and container["image"] == "openseq2seq:cpu"
    assert {"--host=0.0.0.0", "--port=8000"} <= {*words} and container["reads_only"] and len(container["limits"]) == 2
    text = (DEPLOY / name).read_text(encoding="utf-8")
    assert "OPENSEQ2SEQ_API_KEY" in text and "--api_key" not in text  # others see the words of a command
    routes = (ROOT / "open_seq2seq" / "server" / "app.py").read_text(encoding="utf-8")
    for probe in container["health"]:
        path = re.search(r"/[a-z]+(?=\"|$)", probe)[0]
        assert f'"{path}"' in routes


def check_pod(pod: dict) -> None:
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        assert container["image"] == "openseq2seq:cpu"
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def dockerfile() -> list[tuple[str, str]]:
    text = re.sub(r"(?m)^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]  # type: ignore[misc]


def test_the_dockerfile():
    steps = dockerfile()
    assert {word for word, _ in steps} <= {"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "CMD"}
    stages = {value.split(" AS ")[1] for word, value in steps if word == "FROM" and " AS " in value}
    defaults = dict(value.split("=", 1) for word, value in steps if word == "ARG" and "=" in value)
    for word, value in steps:
        if word == "FROM":
            base = value.split(" AS ")[0]
            for device in ("cpu", "gpu"):
                name = re.sub(r"\$\{(\w+)\}", lambda m, d=device: d if m[1] == "DEVICE" else defaults[m[1]], base)
                assert name in stages or ":" in name, name
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", value], check=True)
        if word == "COPY" and "--from" not in value:
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert source == "." or not ignored(source), source
        elif word == "COPY":
            assert re.match(r"--from=(\S+)", value)[1] in stages
    assert defaults["PYTHON_IMAGE"].startswith("python:3.11")


def test_the_package_can_be_installed_from_what_is_copied_before(tmp_path):
    for word, value in dockerfile():
        if "pip install" in value:
            break
        if word == "COPY" and not value.startswith("--from"):
            *sources, folder = value.split()
            target = tmp_path / folder.strip("/")
            target.mkdir(parents=True, exist_ok=True)
            for source in sources:
                shutil.copy(ROOT / source, target)
    package = tmp_path / "opt/openseq2seq"
    assert subprocess.check_output([sys.executable, "setup.py", "--version"], cwd=package, text=True).strip()


def ignored(name: str) -> bool:
    patterns = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    return patterns[0] == "*" and f"!{name.split('/')[0]}" not in patterns


def test_what_the_image_keeps_exists():
    for pattern in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split():
        assert not pattern.startswith("!") or (ROOT / pattern[1:]).exists(), pattern


def run(*command: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, check=False,
                          env={**os.environ, **variables})


def test_resume(tmp_path):
    script = str(DEPLOY / "resume.sh")
    assert run(script, str(tmp_path / "none"), "echo", "a b", "c").stdout == "a b c\n"
    (tmp_path / "config.yaml").touch()
    assert run(script, str(tmp_path), "echo", "a").stdout == "a\n"
    (tmp_path / START_MARK).touch()
    assert run(script, str(tmp_path), "echo", "a").stdout == "a --continue_learning\n"
    (tmp_path / START_MARK).unlink()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "state.json").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for logdir in (tmp_path, tmp_path / "link"):
        assert run(script, str(logdir), "echo", "a").stdout == "a --continue_learning\n"
    assert run(script, str(tmp_path), "false").returncode == 1
    assert run(script).returncode == 2


def test_tf_config():
    script = str(DEPLOY / "tf_config.sh")
    done = run(script, "1", "host-a", "host-b", "--", "sh", "-c", 'echo "$TF_CONFIG"')
    assert json.loads(done.stdout) == {"cluster": {"worker": ["host-a:12345", "host-b:12345"]},
                                       "task": {"type": "worker", "index": 1}}
    assert "host-a:7" in run(script, "0", "host-a", "--", "env", PORT="7").stdout
    for wrong in ((), ("0", "host-a", "host-b", "true"), ("0", "host-a", "host-b", "--")):
        assert run(script, *wrong).returncode == 2


@pytest.fixture
def slurm(tmp_path):
    """Stand-ins for Slurm's programs and the launchers, which tell how they were called."""
    (tmp_path / "toy_text_data").mkdir()
    (tmp_path / "deploy").symlink_to(DEPLOY)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, body in (("scontrol", '[ "$1" = show ] && printf "n1\\nn2\\n" || echo "$@" >> calls'),
                       ("mpiexec", 'echo "mpiexec $*" >> calls; [ -z "${HANG:-}" ] || { python & wait; }'),
                       ("srun", 'while [ "$1" != sh ]; do shift; done; SLURM_PROCID=1 exec "$@"'),
                       ("python", 'echo "python $* $TF_CONFIG" >> calls; [ -z "${HANG:-}" ] || exec sleep 60')):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    return tmp_path


ALLOCATION = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2",
              "SLURM_CPUS_PER_TASK": "3", "SLURM_JOB_ID": "7"}


def test_the_slurm_job(slurm):
    done = run("bash", str(DEPLOY / "slurm" / "train.sbatch"), SLURM_SUBMIT_DIR=str(slurm), **ALLOCATION)
    assert done.returncode == 0, done.stdout
    [call] = (slurm / "calls").read_text().splitlines()
    assert call.startswith("mpiexec -np 4 -H n1:2,n2:2 --bind-to none") and call.endswith("--logdir=nmt-reversal-TT")


def test_the_slurm_job_stops_and_goes_on(slurm):
    """On Slurm's signal the ranks of the first node are asked to stop, and the job is queued again."""
    with subprocess.Popen(["bash", str(DEPLOY / "slurm" / "train.sbatch")], cwd=slurm,
                          env={**os.environ, **ALLOCATION, "SLURM_SUBMIT_DIR": str(slurm), "HANG": "1"}) as job:
        while not (slurm / "calls").exists() or "python" not in (slurm / "calls").read_text():
            assert job.poll() is None
        job.terminate()
        assert job.wait(timeout=100) in (0, 143)
    assert (slurm / "calls").read_text().splitlines()[-1] == "requeue 7"


def test_the_slurm_job_of_tf_config(slurm):
    done = run("bash", str(DEPLOY / "slurm" / "multiworker.sbatch"), SLURM_SUBMIT_DIR=str(slurm), **ALLOCATION)
    assert done.returncode == 0, done.stdout
    [call] = (slurm / "calls").read_text().splitlines()
    assert call.startswith("python run.py ") and '"n1:12345", "n2:12345"' in call and '"index": 1' in call
