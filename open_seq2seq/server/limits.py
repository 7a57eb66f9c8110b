"""What the server refuses: each limit has its own status and one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from open_seq2seq.utils.errors import UserError


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
      megabytes: largest body of a request.
      audio_seconds: longest recording of a request.
      characters: most characters of the texts of a request.
      spoken_characters: most characters of the texts of a request that are spoken, each of which takes far longer than
        one that is read.
      inputs: most inputs of a request.
      requests: most requests at a time; further ones are refused with 429.
      waiting: most inputs that wait for a model; further ones are refused with 503.
      seconds: time in which the body of a request has to arrive, and time in which it is answered.

    Raises:
      UserError: a limit is no positive number.
    """

    megabytes: float = 25.0
    audio_seconds: float = 1800.0
    characters: int = 20_000
    spoken_characters: int = 4096
    inputs: int = 128
    requests: int = 256
    waiting: int = 512
    seconds: float = 120.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < math.inf:
                raise UserError(f"The limit {one.name} is {value}, but must be a positive number.")


class Refused(Exception):
    """A request that is not answered.

    Args:
      status: status of the response.
      message: one sentence for the client.
      param: name of the field that is wrong, if it is one.
      retry_after: after how many seconds the client may try again.
    """

    def __init__(self, status: int, message: str, param: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.retry_after = status, message, param, retry_after


def check_texts(texts: list[str], limits: Limits, param: str = "input") -> None:
    """Raises Refused if there are too many texts or characters, or a text is no valid Unicode."""
    if len(texts) > limits.inputs:
        raise Refused(413, f"The request has {len(texts):,} inputs, but at most {limits.inputs:,} are allowed: send "
                      "several requests.", param)
    check_characters(texts, limits.characters, param)
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise Refused(400, "A text is not valid Unicode: it has half of a surrogate pair.", param)


def checked_number(given: Any, least: int, most: int, param: str) -> int:
    """Returns the whole number in a field; raises Refused if it is none, or out of range."""
    if isinstance(given, bool) or not str(given).isdecimal() or len(str(given)) > 4 or not least <= int(given) <= most:
        raise Refused(400, f"The field {param!r} must be a number from {least} to {most}.", param)
    return int(given)


def check_characters(texts: list[str], most: int, param: str | None = None) -> None:
    """Raises Refused if texts have more characters than this together."""
    count = sum(map(len, texts))
    if count > most:
        raise Refused(413, f"The texts have {count:,} characters, but at most {most:,} are allowed: divide them.",
                      param)
