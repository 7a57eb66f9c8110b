"""Hostile cases: no user file is lost, no command hangs or ends with a traceback, and no result is silently wrong.

``case.py`` defines cases, and the ``cases_*.py`` files contain them. Only quick cases run in ``make test``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.hostile.case import Case
from tests.hostile.driver import Driver, all_cases

SLOTS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2


@pytest.fixture(scope="module")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    chosen = [item.callspec.params["case"] for item in request.session.items
              if getattr(item, "function", None) is test_hostile]
    with Driver(chosen, SLOTS) as driver:
        yield driver


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=[] if case.quick else [pytest.mark.slow])
                                  for case in all_cases()])
def test_hostile(case: Case, driver: Driver, record_property):
    outcome = driver.outcome(case)
    record_property("hostile", [case.name, sorted({finding.kind for finding in outcome.findings})])
    if outcome.findings:
        pytest.fail(outcome.report(), pytrace=False)
