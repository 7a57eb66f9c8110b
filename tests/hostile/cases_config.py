"""Configs and command lines that nobody meant."""

from __future__ import annotations

from tests.hostile.case import EVALUATE, RESUME, Case, Refused, Said, Same
from tests.hostile.faults import flip

CASES = [
    Case("the config that is named does not exist", ("--config_file=nix.py",), Refused("nix.py does not exist"),
         quick=True),
    Case("a bit of the newest weights is flipped before an evaluation", EVALUATE, Said("truncated or altered"),
         fault=flip("run/model.ckpt-60/weights.safetensors")),
    Case("a bit of the newest weights is flipped before training goes on", RESUME, Same("truncated or altered"),
         fault=flip("run/model.ckpt-60/weights.safetensors")),
]
