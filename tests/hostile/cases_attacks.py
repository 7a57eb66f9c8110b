"""Checkpoints that an attacker has modified, with matching checksums: each attack before each command.

The attacks are those of the tests of checkpoints and of logdirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.case import EVALUATE, INFER_TEXT, RESUME, Case, Fault, Place, Refused, Same
from tests.integration.test_hostile_logdir import ATTACKS
from tests.unit.checkpoints import attacks

COMMANDS = {"inference from the logdir": INFER_TEXT, "evaluation": EVALUATE, "training that goes on": RESUME}
# Attacks on the logdir itself, which an older checkpoint of the run does not repair.
OF_THE_LOGDIR = {"the_best_models_are_a_link", "the_copies_are_a_link"}
# Attacks on files that only inference with the checkpoint's own config uses.
OF_THE_CONFIG = {*ATTACKS} - {*attacks.ATTACKS} - OF_THE_LOGDIR


def attacked(name: str, alone: bool) -> Fault:
    """Attacks the newest checkpoint.

    Args:
      name: name of the attack.
      alone: whether to move all other checkpoints away.
    """
    def fault(place: Place) -> None:
        for step in (20, 40) if alone else ():
            (place.run / f"model.ckpt-{step}").rename(place / f"aside-{step}")
        if name in OF_THE_LOGDIR:
            (place.run / "best_models").rename(place / "aside-best")
        ATTACKS[name][0](place.newest)

    return fault


def _cases() -> Iterator[Case]:
    for name, (_, words) in ATTACKS.items():
        for what, command in COMMANDS.items():
            if command is INFER_TEXT or name not in OF_THE_CONFIG:
                yield Case(f"{name.replace('_', ' ')} before {what}", command, Refused(words), attacked(name, True))
    # One attack of each kind: training resumes from the previous checkpoint, with bit-identical results.
    kinds = {words: name for name, (_, words) in ATTACKS.items() if name not in OF_THE_LOGDIR | OF_THE_CONFIG}
    for words, name in kinds.items():
        yield Case(f"{name.replace('_', ' ')}, and the checkpoint before is taken", RESUME, Same(words),
                   attacked(name, False))


CASES = list(_cases())
