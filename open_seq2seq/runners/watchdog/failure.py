"""A failure of one process of a run, and the sentence that reports it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

DIED, SILENT, FAILED = "died", "silent", "failed"


@dataclass(frozen=True)
class Failure:
    """What one process knows of the end of another, or of its own.

    Attributes:
      kind: ``died`` (its connections closed without a goodbye), ``silent`` (no heartbeat for too long), or ``failed``
        (it reported its error).
      rank: the process that failed.
      host: its host.
      place: where it was last, such as ``step 7, on examples 3, 17``; may be empty.
      problem: its error message.
      code: the exit code that all processes end with.
      seconds: how long it was silent.
      told: whether a process has already printed a sentence about it.
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
        """Returns the failure of a message; raises TypeError if the message is not one."""
        return cls(**message)

    def sentence(self) -> str:
        """Returns the sentence for the user."""
        who = f"rank {self.rank} on host {self.host}"
        if self.kind == FAILED:
            at = f" at {self.place}" if self.place else ""
            return f"stopped, because {who} ended with an error{at}: {self.problem}"
        place = f"Its last sign came at {self.place}." if self.place else "It had not begun its first step."
        if self.kind == DIED:
            return (f"{who} died. {place} It crashed or was killed: see its own output above for the cause, and the "
                    "kernel's log on that host (dmesg) for whether it ran out of memory.")
        return (f"{who} has given no sign for {self.seconds:.0f} s. {place} It is stopped or stuck, or its host cannot "
                "be reached; 'watchdog_seconds' says how long the others wait.")
