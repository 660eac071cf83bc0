# SPDX-License-Identifier: GPL-2.0
"""Tables of text for a terminal."""


def table(head, rows):
    """The lines of a table; numbers are below each other, with the same decimals in a column."""
    columns = [column(title, [row[place] for row in rows]) for place, title in enumerate(head)]
    return ["  ".join(cells).rstrip() for cells in zip(*columns)]


def column(title, cells):
    """The title and the cells of a column as texts of the same width."""
    numbers = [cell for cell in cells if isinstance(cell, (int, float))]
    decimals = max((len(str(cell).partition(".")[2]) for cell in numbers), default=0)
    texts = [title, *("-" if cell in (None, "") else f"{cell:.{decimals}f}"
                      if cell in numbers else cell for cell in cells)]
    width = max(map(len, texts))
    is_left = any(isinstance(cell, str) and cell for cell in cells)
    return [text.ljust(width) if is_left else text.rjust(width) for text in texts]
