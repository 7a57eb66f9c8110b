"""``TF_CONFIG``, the variable by which a cluster tells each process its role, as TensorFlow defines it."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from open_seq2seq.utils.errors import UserError

_EXAMPLE = '{"cluster": {"worker": ["host-a:12345", "host-b:12345"]}, "task": {"type": "worker", "index": 0}}'


class ClusterTask(NamedTuple):
    """One process of a cluster.

    Attributes:
      rank: its number among all, from 0.
      hosts: addresses of all, in order of rank.
      chiefs: number of tasks of the job ``chief``; those of the job ``worker`` are counted after them.
    """

    rank: int
    hosts: list[str]
    chiefs: int = 0

    def rank_of(self, job: str, index: int) -> int:
        """Returns the rank of a task."""
        return index if job == "chief" else index + self.chiefs


def cluster_task() -> ClusterTask | None:
    """Returns which process of a cluster this one is; None if ``TF_CONFIG`` names at most one process.

    Raises:
      UserError: ``TF_CONFIG`` cannot be understood, or gives this process a role that does not train.
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster = {str(job): [str(host) for host in hosts] for job, hosts in config.get("cluster", {}).items()}
        own = config.get("task", {})
        job, index = str(own.get("type", "worker")), int(own.get("index", 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"TF_CONFIG in the environment cannot be read: it has to look like {_EXAMPLE}.") from error
    hosts = [*cluster.get("chief", []), *cluster.get("worker", [])]
    if len(hosts) < 2:
        return None
    if job not in ("chief", "worker") or not 0 <= index < len(cluster.get(job, [])):
        raise UserError(f"TF_CONFIG gives this process the task {job} {index}, but of the tasks chief and worker its "
                        f"cluster has {', '.join(hosts)}: parameter servers and evaluators do not train here.")
    task = ClusterTask(0, hosts, len(cluster.get("chief", [])))
    return task._replace(rank=task.rank_of(job, index))
