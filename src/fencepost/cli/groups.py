"""How a command with others below it lists them: with whole sentences, and what was meant by a slip."""

import click

#: Longer than any first sentence. Lines are wrapped, instead of ending in the middle of a sentence.
WHOLE = 1000


class Group(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.line_of(ctx, name)) for name in self.list_commands(ctx)])

    def line_of(self, ctx: click.Context, name: str) -> str:
        """The first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(WHOLE)
