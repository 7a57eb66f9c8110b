"""``TF_CONFIG``, TensorFlow's environment variable that gives each process its role in a cluster."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from open_seq2seq.utils.errors import UserError

_EXAMPLE = '{"cluster": {"worker": ["host-a:12345", "host-b:12345"]}, "task": {"type": "worker", "index": 0}}'


class ClusterTask(NamedTuple):
    """One process of a cluster.

    Attributes:
      rank: rank of the process, from 0.
      hosts: addresses of all processes, in rank order.
      chiefs: number of tasks of the job ``chief``; their ranks are lower than those of the job ``worker``.
    """

    rank: int
    hosts: list[str]
    chiefs: int = 0

    def rank_of(self, job: str, index: int) -> int:
        """Returns the rank of the task with this index in the job, ``chief`` or ``worker``."""
        return index if job == "chief" else index + self.chiefs


def cluster_task() -> ClusterTask | None:
    """Returns this process's task in the cluster; None if ``TF_CONFIG`` names at most one process.

    Raises:
      UserError: ``TF_CONFIG`` is invalid, or gives this process a role that does not train.
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
        raise UserError(f"TF_CONFIG in the environment is not valid. It must look like {_EXAMPLE}.") from error
    hosts = [*cluster.get("chief", []), *cluster.get("worker", [])]
    if len(hosts) < 2:
        return None
    if job not in ("chief", "worker") or not 0 <= index < len(cluster.get(job, [])):
        raise UserError(f"TF_CONFIG gives this process the task {job} {index}, but the chief and worker tasks of its "
                        f"cluster are only {', '.join(hosts)}. Parameter servers and evaluators are not supported.")
    task = ClusterTask(0, hosts, len(cluster.get("chief", [])))
    return task._replace(rank=task.rank_of(job, index))
