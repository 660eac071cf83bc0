# SPDX-License-Identifier: GPL-2.0
"""The command line of the bench: `python3 -m bench NAME ...`; see USAGE."""

import importlib
import sys

USAGE = """\
usage: python3 -m bench [NAME] [options]; python3 -m bench NAME --help describes one

  (none)      compare the policies: make bench
  run         play one scenario file
  again       play a job again, from its folder in build/failed or build/kept
  geo         play public satellite accesses: make geo
  papers      run the papers' experiments again: make papers
  matrix      try the modules on several kernels: make matrix
  report      draw the report of a comparison again
  readme      write the READMEs' tables, and the figures of satcc choose, from the results
  oracle      recompute every window of a kept run
  calibrate   compare the emulated link with what its scenario claims
  boots       boot the guest many times and compare its memory
  links       write the data file of a hundred random links
  prune       remove kept runs of other images and emulators

options of the comparison:
  --kernel SERIES   series of the packaged kernel: 6.1 (default), 6.12, 5.10, newest; -rt for PREEMPT_RT
  --fresh           ignore cached runs
  --name NAME       write to results/NAME (geo)
  --long            add a 100 Mbit/s link with random loss"""

OF_COMMANDS = ("run", "again", "prune")      # commands.py has these, and the comparison
# The modules with main(words) of the other commands.
PROGRAMS = {
    "geo": "compare.geo", "report": "compare.webpage", "readme": "compare.readme",
    "papers": "papers.command", "matrix": "matrix.command", "oracle": "oracle.command",
    "calibrate": "measure.calibrate", "boots": "lab.boots", "links": "scenario.links",
}


def main(words: list[str]) -> int:
    """Run the command that the words name and return its exit status."""
    if words in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    program, rest = "commands", words
    if words and words[0] in PROGRAMS:
        program, rest = PROGRAMS[words[0]], words[1:]
    elif words and words[0] not in OF_COMMANDS and not words[0].startswith("-"):
        print(f"bench: no command {words[0]}: python3 -m bench --help lists them", file=sys.stderr)
        return 2
    try:
        return importlib.import_module(f"bench.{program}").main(rest)
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] in ("bench", "tools"):
            raise
        print(f"bench: no Python module {error.name}: run tools/setup, then /usr/bin/python3 -m bench",
              file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
