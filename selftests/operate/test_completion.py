# SPDX-License-Identifier: GPL-2.0
"""What bash and zsh complete after satcc: its commands and options, all of them and no other."""

import argparse
import os
import shutil
import subprocess

import pytest

from bench.paths import policies
from selftests.operate.net import TOP
from tools.satcc_operate import cli

COMPLETIONS = TOP / "tools/completions"
BASH = """
source "$1"
COMP_WORDS=($2 "$3")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_satcc
printf '%s\\n' "${COMPREPLY[@]}"
"""
# A shell of its own on a terminal completes the line; compadd is told all that may stand there.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; stty -echo; fpath=(${(q)1:h} \$fpath); autoload -Uz compinit; compinit -D -u"
zpty -w z 'compadd() {
    local -a hits
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || {
        builtin compadd -A hits "$@"
        print -u 9 -rl -- $hits
    }
    builtin compadd "$@"
}'
zpty -w z 'leave() { exec 9>&-; exit }; zle -N leave; bindkey "^X" leave; bindkey "^I" complete-word'
zpty -w z "exec 9>${(q)3}"
zpty -w -n z "$2"$'\t\x18'
while zpty -r z line 2>/dev/null; do :; done
"""


def ask_bash(words, word, folder):
    return subprocess.run(["bash", "--norc", "-euc", BASH, "bash", COMPLETIONS / "satcc", words, word],
                          text=True, capture_output=True, check=True).stdout.split()


def ask_zsh(words, word, folder):
    if not shutil.which("zsh"):
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail("no zsh")
        pytest.skip("no zsh")
    answer = folder / "answer"
    subprocess.run(["zsh", "-fc", ZSH, "zsh", COMPLETIONS / "_satcc", f"{words} {word}", answer],
                   check=True, stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)})
    return answer.read_text().split()


def levels(parser, words="satcc"):
    """(words, its sub-commands, its options) of a parser and of each below it."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    choices = groups[0].choices if groups else {}
    yield words, set(choices), set(parser._option_string_actions)
    for name, child in choices.items():
        yield from levels(child, f"{words} {name}")


@pytest.mark.parametrize("ask", [ask_bash, ask_zsh])
@pytest.mark.parametrize("words, commands, options", levels(cli.arguments_parser()),
                         ids=lambda value: value if isinstance(value, str) else "")
def test_commands_and_options_are_the_parsers(ask, words, commands, options, tmp_path):
    assert set(ask(words, "-", tmp_path)) == options
    if commands:
        assert set(ask(words, "", tmp_path)) == commands


@pytest.mark.parametrize("ask", [ask_bash, ask_zsh])
def test_policies_complete_a_route(ask, tmp_path):
    assert set(ask("satcc route add 192.0.2.0/24", "", tmp_path)) >= {*policies(), "reno"}
    assert set(ask("satcc route add", "", tmp_path)) == {"default", "default6"}
