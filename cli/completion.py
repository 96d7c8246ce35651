"""`vcledger completion bash|zsh|fish`: the scripts that let a shell complete, also after `kubectl vcledger`.

Owns the scripts and the protocol that they speak: `vcledger __complete WORD...` prints the candidates for the last word
(which may be empty), one a line, then `:4`, or `:0` where file names may follow; it is kubectl's own, so the console
script `kubectl_complete-vcledger` answers kubectl the same way. Must not know the candidates (`cli.complete`). Called
by `cli.main` and by that console script.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from cli.complete import PROTOCOL

NO_FILES, FILES = 4, 0
"""kubectl's directives (cobra's ShellCompDirectiveNoFileComp and ShellCompDirectiveDefault)."""

FILE_COMMANDS = ("import", "compare", "conformance", "simulate")
FILE_OPTIONS = ("--db", "--scheduler-args", "--broken", "--config", "--kubeconfig", "--out", "--plan", "--keep")

BASH = """\
# vcledger in bash: source <(vcledger completion bash)
_vcledger() {
    local line=${COMP_LINE:0:COMP_POINT} last before directive=:4 found
    local -a words
    read -r -a words <<<"$line"
    case $line in *[[:space:]]) words+=("") ;; esac
    COMPREPLY=()
    while IFS= read -r found; do
        case $found in :[0-9]*) directive=$found ;; ?*) COMPREPLY+=("$found") ;; esac
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    last=${words[${#words[@]}-1]}
    # bash takes a colon for the end of a word and keeps what stands before it
    case $COMP_WORDBREAKS in *:*)
        before=${last%"${last##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$before"}") ;;
    esac
    if [ "${#COMPREPLY[@]}" -eq 1 ]; then
        case ${COMPREPLY[0]} in *[/:]) compopt -o nospace 2>/dev/null ;; esac
    elif [ "${#COMPREPLY[@]}" -eq 0 ] && [ "$directive" = :0 ]; then
        compopt -o default 2>/dev/null
    fi
}
complete -F _vcledger vcledger kubectl-vcledger
"""

ZSH = """\
#compdef vcledger kubectl-vcledger
# vcledger in zsh: source <(vcledger completion zsh), after compinit
_vcledger() {
    local -a found
    local directive
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    directive=${found[-1]}
    found[-1]=()
    if (( ${#found} )); then
        compadd -a found
    elif [[ $directive == :0 ]]; then
        _files
    fi
}
compdef _vcledger vcledger kubectl-vcledger
"""

FISH = """\
# vcledger in fish: vcledger completion fish | source
function __vcledger_candidates
    set -l words (commandline -opc)
    $words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null | string match -v -r '^:[0-9]+$'
end
complete -c vcledger -f -a '(__vcledger_candidates)'
complete -c vcledger -n '__fish_seen_subcommand_from import compare conformance simulate' -F
"""


class Shell(StrEnum):
    """The shells that there is a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


SCRIPTS = {Shell.bash: BASH, Shell.zsh: ZSH, Shell.fish: FISH}


def register(app: typer.Typer) -> None:
    """Adds the command, and the hidden one that the scripts call."""
    app.command("completion")(completion)
    app.command(
        PROTOCOL,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(answer)


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish")]) -> None:
    """Print the script that lets a shell complete commands, options, and the names that the ledger has.

    bash: source <(vcledger completion bash). zsh: source <(vcledger completion zsh). fish: vcledger completion fish |
    source. `kubectl vcledger` is completed by kubectl itself, which calls kubectl_complete-vcledger from the PATH.
    """
    typer.echo(SCRIPTS[shell], nl=False)


def answer(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """The candidates for the last word, then what else a shell may offer."""
    given = list(words or [""])
    for candidate in candidates(given):
        typer.echo(candidate)
    typer.echo(f":{directive(given)}")


def candidates(words: Sequence[str]) -> list[str]:
    """The candidates for the last of the words behind the program's name."""
    from typer._completion_classes import completion_init

    from cli.main import app

    completion_init()
    asked = {
        "_VCLEDGER_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["vcledger", *words]),
        "COMP_CWORD": str(len(words)),
    }
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            app(args=[], prog_name="vcledger", standalone_mode=False)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return [line for line in printed.getvalue().splitlines() if line]


def directive(words: Sequence[str]) -> int:
    """Whether a file may be meant: behind an option that takes one, or as the argument of a command that does."""
    if len(words) > 1 and words[-2] in FILE_OPTIONS:
        return FILES
    return FILES if len(words) > 1 and words[0] in FILE_COMMANDS and not words[-1].startswith("-") else NO_FILES


def main() -> None:
    """The entry of `kubectl_complete-vcledger`, to which kubectl gives the words behind `kubectl vcledger`."""
    answer(sys.argv[1:])
