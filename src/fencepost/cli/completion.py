"""`fencepost completion`: the script that makes a shell complete commands, options, topics and groups."""

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_FENCEPOST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, topics and groups in a shell.

    Names of topics and groups come from the cluster that -b names, or localhost:9092, if it answers within a second.

    \b
    Examples:
      eval "$(fencepost completion bash)"                              in ~/.bashrc
      eval "$(fencepost completion zsh)"                               in ~/.zshrc
      fencepost completion fish > ~/.config/fish/completions/fencepost.fish
    """
    from click.shell_completion import get_completion_class

    from fencepost.cli.main import main

    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(f"this version of click has no completion for {shell}")
    try:
        click.echo(made(main, {}, "fencepost", VARIABLE).source())
    except RuntimeError as error:  # a bash of before 4.4
        raise click.ClickException(str(error)) from None
