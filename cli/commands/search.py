"""search."""

import click

from cli.options import limit_option, server_command


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--language", default="", metavar="TAG", help="Only passages in it; pt includes pt-BR."
)
@click.option("--collection", default="", metavar="ID", help="Only recordings of this collection.")
@click.option("--job", default="", metavar="ID", help="Only this job.")
@limit_option
@server_command("search.search")
def search() -> None:
    """Finds WORDS in the captions of all jobs that ended, best passages first.

    All of them have to be in a passage. Quotes hold a phrase together ('"a phrase"'), a star stands
    for the rest of a word (capt*), and -word excludes (after --, else it is an option).
    """
