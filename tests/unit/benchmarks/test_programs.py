"""Programs take turns, and their durations are compared with those of the first."""

from __future__ import annotations

from benchmarks.measuring.programs import comparison_table, take_turns


def test_the_first_round_is_not_counted():
    calls = []

    def program(name, seconds):
        def one_pass():
            calls.append(name)
            return next(seconds)

        return one_pass

    durations = take_turns({"a": program("a", iter([9.0, 1.0, 2.0])), "b": program("b", iter([8.0, 3.0, 4.0]))}, 2)
    assert durations == {"a": [1000.0, 2000.0], "b": [3000.0, 4000.0]}
    assert calls == ["a", "b"] * 3


def test_speeds_are_relative_to_the_first_row():
    table = comparison_table({"theirs": [400.0, 200.0, 300.0], "ours": [60.0]}, "images", 30).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert cells[0] == ["", "ms, median", "range", "images/s", "speed by theirs"]
    assert cells[2:] == [["theirs", "300", "200 to 400", "100", "1.00"],
                         ["ours", "60.0", "60.0 to 60.0", "500", "5.00"]]
    assert "images/s" not in comparison_table({"ours": [1.0]})
