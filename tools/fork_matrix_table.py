#!/usr/bin/env python3
"""Several fork matrices side by side, as Markdown.

    tools/fork_matrix_table.py NAME=FILE.json [NAME=FILE.json ...] > docs/fork-matrix-measured.md

The files are what ``fork_matrix.py --json`` writes, each for another Triton on the same kind of
machine.  One line per row, one column per Triton, in each the marks of the row's questions in the
order of the matrix.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from pathlib import Path
from typing import Any

Cells = list[dict[str, Any]]

REASON_LENGTH = 72
REASONS_SHOWN = 6


def read_cells(argument: str) -> tuple[str, Cells]:
    """The name and the cells of one NAME=FILE argument.

    Raises:
        SystemExit: it has no name, or the file cannot be read or is no matrix; the message says so.
    """
    name, separator, file = argument.partition("=")
    if not name or not separator:
        raise SystemExit(f"fork_matrix_table: {argument!r} is not NAME=FILE")
    try:
        return name, json.loads(Path(file).read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"fork_matrix_table: {file} is no fork matrix: {error!r}") from error


def rows_of(cells: Cells) -> dict[str, str]:
    """The marks of each row, by its label."""
    rows: dict[str, str] = {}
    for cell in cells:
        rows[cell["row"]] = rows.get(cell["row"], "") + cell["mark"]
    return rows


def count(cells: Cells) -> str:
    """How many cells are right, as fork_matrix.py counts."""
    verdicts = collections.Counter(cell["verdict"] for cell in cells)
    return f"{verdicts['right']} of {verdicts['right'] + verdicts['wrong']}"


def reasons(cells: Cells) -> list[tuple[str, str, int]]:
    """What is wrong most often: mark, reason, number of cells.

    Of a reason, what differs from cell to cell (a driver's state, after ": [") is left out.
    """
    found = collections.Counter(
        (cell["mark"], cell["why"].splitlines()[0].partition(": [")[0][:REASON_LENGTH])
        for cell in cells
        if cell["verdict"] == "wrong"
    )
    return [(mark, why, times) for (mark, why), times in found.most_common(REASONS_SHOWN)]


def markdown(matrices: dict[str, Cells]) -> str:
    """The tables."""
    names = list(matrices)
    questions = list(dict.fromkeys(cell["question"] for cell in matrices[names[0]]))
    lines = [
        "| | " + " | ".join(names) + " |",
        "| --- |" + " --- |" * len(names),
        "| cells right | " + " | ".join(map(count, matrices.values())) + " |",
        "",
        f"The marks of a row are, in this order: {', '.join(questions)}.",
        "",
        "| row | " + " | ".join(names) + " |",
        "| --- |" + " --- |" * len(names),
    ]
    marks = {name: rows_of(cells) for name, cells in matrices.items()}
    for label in dict.fromkeys(label for rows in marks.values() for label in rows):
        shown = (f"`{marks[name][label]}`" if label in marks[name] else "" for name in names)
        lines.append(f"| {label} | " + " | ".join(shown) + " |")
    for name, cells in matrices.items():
        wrong = reasons(cells)
        if wrong:
            lines += ["", f"What is wrong most often with {name}:", "", "| cells | | |"]
            lines.append("| --- | --- | --- |")
            lines += [f"| {times} | `{mark}` | `{why}` |" for mark, why, times in wrong]
    return "\n".join(lines)


def main() -> int:
    """Reads the files and prints the tables."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("matrices", nargs="+", metavar="NAME=FILE")
    options = parser.parse_args()
    print(markdown(dict(map(read_cells, options.matrices))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
