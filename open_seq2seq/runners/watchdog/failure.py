"""A failure of one process of a run, and the message that reports it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

DIED, SILENT, FAILED = "died", "silent", "failed"


@dataclass(frozen=True)
class Failure:
    """What a process knows about the failure of another process, or about its own.

    Attributes:
      kind: ``died`` (the connection closed although the process had not announced its end), ``silent`` (no heartbeat
        for too long), or ``failed`` (the process reported its error).
      rank: rank of the process that failed.
      host: host of the process.
      place: what the process was last working on, such as ``step 7, on examples 3, 17``; may be empty.
      problem: error message of the process, if ``kind`` is ``failed``.
      code: exit code with which all processes end.
      seconds: time without a heartbeat that counts as a failure, in seconds; stated in the message of a silent process.
      told: whether a process has already printed a message about the failure.
    """

    kind: str
    rank: int
    host: str
    place: str = ""
    problem: str = ""
    code: int = 1
    seconds: float = 0.0
    told: bool = False

    def message(self) -> dict[str, Any]:
        """Returns the JSON object that ``from_message`` reads."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Failure:
        """Returns the failure in a message; raises TypeError if the message does not describe a failure."""
        return cls(**message)

    def sentence(self) -> str:
        """Returns the message for the user."""
        who = f"rank {self.rank} on host {self.host}"
        if self.kind == FAILED:
            at = f" at {self.place}" if self.place else ""
            return f"stopped because {who} ended with an error{at}: {self.problem}"
        place = f"Its last heartbeat came at {self.place}." if self.place else "It had not begun its first step."
        if self.kind == DIED:
            return (f"{who} died. {place} It crashed or was killed: see its own output above for the cause, and the "
                    "kernel's log on that host (dmesg) for whether it ran out of memory.")
        return (f"{who} has sent no heartbeat for {self.seconds:.0f} s. {place} It is stopped or stuck, or its host "
                "cannot be reached. 'watchdog_seconds' sets how long the others wait.")
