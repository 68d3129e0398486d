"""What stands on a terminal once a program has written to it: as much of a VT100 as training scripts use."""

from __future__ import annotations

import re

SEQUENCE = re.compile(r"\x1b(?:\[([?0-9;]*)([A-Za-z])|([78DM=>]))")


class Screen:
    """A screen of so many rows and columns, what has scrolled out of it at the top, and the alternate one."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self._cells = [[" "] * columns for _ in range(rows)]
        self.history: list[str] = []
        self.alternate: Screen | None = None  # while it is shown
        self.was_alternate: list[str] = []  # what stood there last
        self._row = self._column = 0
        self._saved = (0, 0)
        self._region = (0, rows)
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """The rows, without spaces at their ends."""
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def all_lines(self) -> list[str]:
        """What has scrolled out, and the rows."""
        return [*self.history, *self.lines]

    def feed(self, text: str) -> None:
        """Write `text` on it; a sequence that is cut at its end waits for the rest."""
        text = self._rest + text
        cut = text.rfind("\x1b")
        is_whole = cut < 0 or SEQUENCE.match(text, cut) is not None
        text, self._rest = (text, "") if is_whole else (text[:cut], text[cut:])
        place = 0
        for found in SEQUENCE.finditer(text):
            self._write(text[place : found.start()])
            self._obey(found[1] or "", found[2] or found[3])
            place = found.end()
        self._write(text[place:])

    def _write(self, letters: str) -> None:
        if self.alternate is not None:
            self.alternate._write(letters)
            return
        for letter in letters:
            if letter == "\r":
                self._column = 0
            elif letter == "\n":
                self._down()
            elif letter == "\b":
                self._column = max(0, self._column - 1)
            elif letter.isprintable():
                if self._column >= self.columns:
                    self._column = 0
                    self._down()
                self._cells[self._row][self._column] = letter
                self._column += 1

    def _down(self) -> None:
        top, bottom = self._region
        if self._row == bottom - 1:
            gone = self._cells.pop(top)
            if top == 0:
                self.history.append("".join(gone).rstrip())
            self._cells.insert(bottom - 1, [" "] * self.columns)
        else:
            self._row = min(self._row + 1, self.rows - 1)

    def _obey(self, numbers: str, kind: str) -> None:
        if numbers == "?1049":
            if kind == "h":
                self.alternate = Screen(self.rows, self.columns)
            elif self.alternate is not None:
                self.was_alternate, self.alternate = self.alternate.lines, None
            return
        if self.alternate is not None:
            self.alternate._obey(numbers, kind)
            return
        told = [int(number) for number in numbers.split(";") if number.isdigit()]
        first = told[0] if told else 0
        {
            "7": self._save,
            "8": self._restore,
            "D": self._down if not numbers else lambda: self._move(0, -(first or 1)),
            "A": lambda: self._move(-(first or 1), 0),
            "B": lambda: self._move(first or 1, 0),
            "C": lambda: self._move(0, first or 1),
            "H": lambda: self._go(*(told or [1, 1])),
            "J": lambda: self._clear_below(first),
            "K": lambda: self._clear_line(first),
            "r": lambda: self._set_region(*(told or [1, self.rows])),
        }.get(kind, lambda: None)()

    def _save(self) -> None:
        self._saved = self._row, self._column

    def _restore(self) -> None:
        self._row, self._column = self._saved

    def _move(self, rows: int, columns: int) -> None:
        self._row = min(max(0, self._row + rows), self.rows - 1)
        self._column = min(max(0, self._column + columns), self.columns - 1)

    def _go(self, row: int, column: int = 1) -> None:
        self._row, self._column = min(row, self.rows) - 1, min(column, self.columns) - 1

    def _set_region(self, top: int, bottom: int) -> None:
        self._region = top - 1, bottom
        self._row = self._column = 0

    def _clear_below(self, kind: int) -> None:
        if kind == 0:
            self._clear_line(0)
        for row in range(0 if kind else self._row + 1, self.rows):
            self._cells[row] = [" "] * self.columns

    def _clear_line(self, kind: int) -> None:
        first = 0 if kind else self._column
        last = self._column + 1 if kind == 1 else self.columns
        self._cells[self._row][first:last] = [" "] * len(self._cells[self._row][first:last])

    def resize(self, rows: int, columns: int) -> None:
        """As a terminal without anything to scroll back does: rows come and go at the bottom."""
        cells = [(row + [" "] * columns)[:columns] for row in self._cells]
        gone = max(0, self._row + 1 - rows)
        self.history += ["".join(row).rstrip() for row in cells[:gone]]
        cells = (cells[gone:] + [[" "] * columns for _ in range(rows)])[:rows]
        self.rows, self.columns, self._cells = rows, columns, cells
        self._row, self._region = self._row - gone, (0, rows)
        if self.alternate is not None:
            self.alternate.resize(rows, columns)
