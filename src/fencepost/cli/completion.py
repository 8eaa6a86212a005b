"""`fencepost completion`: the script that makes a shell complete commands, options, topics and groups.

Bash ends words at a colon, so `-b HOST:PORT` reaches a completion function in three pieces. Ours sends the line itself,
and `OurBash` splits it as a shell would.
"""

import os

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_FENCEPOST_COMPLETE"
#: Where the line up to the cursor is.
TYPED = "_FENCEPOST_TYPED"


class OurBash(BashComplete):
    source_template = BashComplete.source_template.replace(
        "COMP_CWORD=$COMP_CWORD", f'COMP_CWORD=$COMP_CWORD {TYPED}="${{COMP_LINE:0:COMP_POINT}}"'
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        if TYPED not in os.environ:  # a script of an earlier version
            return super().get_completion_args()
        typed = os.environ[TYPED]
        words = split_arg_string(typed)
        return (words[1:], "") if typed[-1:].isspace() else (words[1:-1], words[-1])


def prepare() -> None:
    """Call it before click completes anything."""
    add_completion_class(OurBash)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, topics, groups and transactional ids in a shell.

    Names come from the cluster that -b names, or localhost:9092, if it answers within a second.

    \b
    Examples:
      eval "$(fencepost completion bash)"                              in ~/.bashrc
      eval "$(fencepost completion zsh)"                               in ~/.zshrc
      fencepost completion fish > ~/.config/fish/completions/fencepost.fish
    """
    from fencepost.cli.main import main

    prepare()
    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(f"this version of click has no completion for {shell}")
    try:
        click.echo(made(main, {}, "fencepost", VARIABLE).source())
    except RuntimeError as error:  # a bash of before 4.4
        raise click.ClickException(str(error)) from None
