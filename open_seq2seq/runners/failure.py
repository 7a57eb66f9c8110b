"""A failure of one process of a run, and what is said of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

DIED, SILENT, FAILED = "died", "silent", "failed"


@dataclass(frozen=True)
class Failure:
    """What one process heard of the end of another, or says of its own.

    Attributes:
      kind: ``died`` (its connections closed without a word), ``silent`` (nothing heard of it for too long), or
        ``failed`` (it said itself what went wrong).
      rank: the process that failed.
      host: its host.
      place: where it was last, in words: ``step 7, on examples 3, 17``; may be empty.
      problem: what went wrong, in its own words.
      code: the exit code that all processes end with.
      seconds: how long it was silent.
      told: a sentence about it has been printed, so that nobody else needs to.
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
        """Returns what ``from_message`` reads: JSON."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Failure:
        """Raises TypeError when that is none."""
        return cls(**message)

    def sentence(self) -> str:
        """Returns what the person at the keyboard is told."""
        who = f"rank {self.rank} on host {self.host}"
        if self.kind == FAILED:
            at = f" at {self.place}" if self.place else ""
            return f"stopped, because {who} ended with an error{at}: {self.problem}"
        place = f"Its last sign came at {self.place}." if self.place else "It had not begun its first step."
        if self.kind == DIED:
            return (f"{who} died. {place} Either it crashed, or something killed it: its own last words may stand "
                    "above, and the kernel's log on that host (dmesg) tells whether memory ran out.")
        return (f"{who} has given no sign for {self.seconds:.0f} s. {place} It is stopped or stuck, or its host cannot "
                "be reached; 'watchdog_seconds' says how long the others wait.")
