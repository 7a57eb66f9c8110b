"""Prints a summary of the hostile cases: how many ran, and how many had each kind of problem."""

from __future__ import annotations

from typing import Any

from tests.hostile.judge import summary


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the counts, if any hostile case has run."""
    reports = [report for key in ("passed", "failed") for report in terminalreporter.getreports(key)]
    found = dict(value for report in reports for name, value in report.user_properties if name == "hostile")
    if found:
        terminalreporter.section("hostile cases")
        for line in summary(found):
            terminalreporter.write_line(line)
