"""The report as a PDF: a summary, a table of the recordings, and the texts."""

from datetime import UTC

from fpdf.enums import TableBordersLayout, TableHeadingsDisplay
from fpdf.fonts import FontFace

from reports import words
from reports.model import Collection, Document, Member, MemberState, State, Text
from reports.typesetting import DIM, INK, LINE, LINK, MARGIN, Colour, Font, Sheets

COLOURS: dict[str, Colour] = {
    MemberState.COMPLETED: (17, 99, 41),
    MemberState.RUNNING: (7, 87, 186),
    MemberState.PENDING: (120, 130, 140),
    MemberState.FAILED: (179, 18, 29),
    MemberState.TIMED_OUT: (154, 82, 0),
    MemberState.CANCELLED: (70, 78, 87),
    State.COMPLETE: (17, 99, 41),
    State.PARTIAL: (154, 82, 0),
}
WASH: Colour = (246, 248, 250)
RED = COLOURS[MemberState.FAILED]
WIDTHS = (9, 70, 26, 16, 18, 35)
MEMBER_ROOM = 45
"""Millimetres that must be left on the page for a member to begin there."""

TEXT_BLOCK_ROOM = 20
"""Millimetres that must be left for a text with a heading: some lines must fit below it."""


class PdfReport:
    """Takes one member after another; holds the pages in memory until the end."""

    def __init__(self, collection: Collection, fonts: list[Font]) -> None:
        self._collection = collection
        self._sheets = sheets = Sheets(fonts, words.heading(collection))
        sheets.set_title(words.heading(collection))
        sheets.set_lang("en")
        sheets.set_creator("ytcaption")
        sheets.set_creation_date(collection.report_time.astimezone(UTC))
        sheets.add_page()
        self._places = {member.number: sheets.add_link() for member in collection.members}
        self._documents = False
        self._begin()

    def document(self, document: Document, text: Text) -> None:
        """A heading, the document's fields, and its text."""
        sheets = self._sheets
        if not self._documents:
            self._documents = True
            sheets.add_page()
            sheets.start_section("Documents")
        elif sheets.will_page_break(MEMBER_ROOM):
            sheets.add_page()
        title = f"{document.number}. {words.document_name(document)}"
        sheets.missing = 0
        sheets.start_section(title, level=1)
        sheets.style(13, bold=True)
        sheets.write_on(title, 6.5)
        sheets.style(9, DIM)
        fields = [f"{label} {value}" for label, value in words.document_fields(document)]
        if fields:
            sheets.cells(fields, "  ·  ", 5)
        sheets.style(9, LINK)
        if document.url:
            address = words.on_one_line(document.url)
            sheets.write_on(address, 5, link=words.link(document.url) or None)
        sheets.ln(2)
        sheets.style(10)
        self._text_block(words.TextBlock("", "", text.paragraphs))
        self._note_missing_characters()
        sheets.ln(6)

    def member(self, member: Member, text: Text) -> None:
        """A heading, the member's fields, and its text."""
        sheets = self._sheets
        if sheets.will_page_break(MEMBER_ROOM):
            sheets.add_page()
        title = f"{member.number}. {words.name(member)}"
        sheets.missing = 0
        sheets.set_link(self._places[member.number], y=sheets.y, page=sheets.page)
        sheets.start_section(title, level=1)
        sheets.style(13, bold=True)
        sheets.write_on(title, 6.5)
        self._member_fields(member, text)
        if why := words.failure_text(member.failure):
            sheets.style(9, RED)
            sheets.write_on(why, 5)
        if text.note:
            sheets.style(9, DIM)
            sheets.write_on(text.note, 5)
        sheets.ln(2)
        sheets.style(10)
        for block in words.text_blocks(member, text):
            self._text_block(block)
        self._note_missing_characters()
        sheets.ln(6)

    def end(self) -> bytearray:
        """The whole file."""
        return self._sheets.output()

    def _begin(self) -> None:
        sheets, collection = self._sheets, self._collection
        sheets.start_section("Summary")
        sheets.style(9, DIM, bold=True)
        sheets.write_on("COLLECTION REPORT", 6)
        sheets.style(20, bold=True)
        sheets.write_on(words.heading(collection), 9)
        sheets.ln(3)
        self._verdict()
        self._counts()
        for label, value in words.collection_fields(collection):
            self._field(label, value)
        self._listings()
        self._note_missing_characters()
        if not collection.members:
            sheets.ln(4)
            sheets.style(10)
            sheets.write_on("There are no recordings in this collection.", 5)
            return
        self._table()
        self._note_missing_characters()
        sheets.add_page()
        sheets.start_section("Texts")

    def _verdict(self) -> None:
        sheets = self._sheets
        colour = COLOURS.get(self._collection.state, COLOURS[MemberState.RUNNING])
        top, page = sheets.y, sheets.page
        sheets.set_left_margin(MARGIN + 5)
        sheets.style(11, bold=True)
        sheets.write_on(words.summary(self._collection), 6)
        sheets.set_left_margin(MARGIN)
        if sheets.page == page:
            sheets.set_fill_color(*colour)
            sheets.rect(MARGIN, top, 1.4, sheets.y - top, style="F")
        sheets.ln(4)

    def _counts(self) -> None:
        """A bar in the colours of the states, with a legend."""
        sheets, counts = self._sheets, self._collection.counts
        if not counts:
            return
        x, total = float(MARGIN), sum(counts.values())
        for member_state, count in counts.items():
            width = sheets.epw * count / total
            sheets.set_fill_color(*COLOURS[member_state])
            sheets.rect(x, sheets.y, width, 4, style="F")
            x += width
        sheets.ln(6)
        for member_state, count in counts.items():
            sheets.style(9, COLOURS[member_state], bold=True)
            label = f"{count} {member_state.words}"
            sheets.cell(sheets.get_string_width(label) + 8, 5, label)
        sheets.ln(9)

    def _field(self, label: str, value: str) -> None:
        sheets = self._sheets
        sheets.style(9.5, DIM)
        sheets.cell(38, 5.5, label)
        sheets.set_left_margin(MARGIN + 38)
        sheets.style(9.5)
        sheets.write_on(value, 5.5)
        sheets.set_left_margin(MARGIN)
        sheets.x = MARGIN

    def _listings(self) -> None:
        sheets = self._sheets
        for listing in self._collection.broken_listings:
            sheets.ln(2)
            sheets.style(9.5, RED, bold=True)
            sheets.write_on(words.incomplete_listing(listing), 5)
            sheets.style(9.5, RED)
            sheets.write_on(words.failure_text(listing.failure), 5)

    def _table(self) -> None:
        sheets = self._sheets
        sheets.ln(6)
        sheets.start_section("Recordings")
        sheets.style(13, bold=True)
        sheets.write_on("Recordings", 8)
        sheets.style(8.5)
        sheets.set_draw_color(*LINE)
        sheets.set_fill_color(255)
        sheets.shape("".join(words.name(member) for member in self._collection.members))
        with sheets.table(
            col_widths=WIDTHS,
            text_align=("RIGHT", "LEFT", "LEFT", "RIGHT", "LEFT", "LEFT"),
            borders_layout=TableBordersLayout.HORIZONTAL_LINES,
            headings_style=FontFace(emphasis="BOLD", color=DIM, fill_color=WASH),
            repeat_headings=TableHeadingsDisplay.ON_TOP_OF_EVERY_PAGE,
            line_height=4.6,
            padding=1.1,
        ) as table:
            table.row(words.COLUMNS)
            for member in self._collection.members:
                number, title, stands, length, language, reason = map(
                    sheets.shown, words.row(member)
                )
                line = table.row()
                line.cell(number)
                line.cell(title, link=self._places[member.number], style=FontFace(color=LINK))
                line.cell(stands, style=FontFace(color=COLOURS[member.state]))
                line.cell(length)
                line.cell(language)
                line.cell(reason, style=FontFace(color=RED))
        sheets.shape("")

    def _text_block(self, block: words.TextBlock) -> None:
        sheets = self._sheets
        if block.label:
            if sheets.will_page_break(TEXT_BLOCK_ROOM):
                sheets.add_page()
            sheets.start_section(block.label, level=2)
            sheets.style(10, DIM, bold=True)
            sheets.write_on(block.label, 6)
            sheets.ln(1)
            sheets.style(10)
        for paragraph in block.paragraphs:
            sheets.write_on(words.on_one_line(paragraph), 5)
            sheets.ln(2)

    def _member_fields(self, member: Member, text: Text) -> None:
        sheets = self._sheets
        sheets.style(9, COLOURS[member.state], bold=True)
        label = words.state(member)
        sheets.cell(sheets.get_string_width(label) + 5, 5, label)
        known = [
            f"{label} {value}"
            for label, value in words.member_fields(member, text)
            if label != "Job"
        ]
        sheets.style(9, DIM)
        sheets.cells(known, "  ·  ", 5)
        sheets.style(9, LINK)
        if member.url:
            sheets.write_on(words.on_one_line(member.url), 5, link=words.link(member.url) or None)

    def _note_missing_characters(self) -> None:
        sheets = self._sheets
        if not sheets.missing:
            return
        sheets.style(8.5, DIM)
        sheets.write_on(
            f"Characters shown as ▯ here: {sheets.missing}. No font of this document has them;"
            " the report in any other format does.",
            4.5,
        )
        sheets.style(10, INK)
        sheets.missing = 0
