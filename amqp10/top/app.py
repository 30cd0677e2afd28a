"""The screen of ``headgate top``: a table that is fetched again every second, and the keys for it.

The table shows all links, or all connections, then the sessions of a connection, then the links of a session. The
screen fetches only the rows that it shows, and makes one request at a time.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from amqp10.top import rows
from amqp10.top.admin import Admin, AdminError, Row
from amqp10.top.rows import LinkRow, Order

REFRESH_S = 1.0
SHOWN_MAX = 200
"""The most lines of the table. The table is sorted, so a user seldom needs the rows below."""


@dataclass(frozen=True, slots=True)
class View:
    """The content of the table: ``connections``, ``sessions`` of a connection, all ``links`` or those of a session."""

    kind: str
    within: str | None = None
    """The connection or session whose rows are shown. None: all rows."""


@dataclass(frozen=True, slots=True)
class Page:
    """The fetched rows of a view: identities and cells."""

    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[str]]]
    waiting: frozenset[str] = frozenset()
    """Identities of the rows that wait."""


class TopApp(App[None]):
    """The textual application."""

    TITLE = "headgate top"
    CSS = """
    #head { height: auto; padding: 0 1; background: $panel; }
    #place { height: 1; padding: 0 1; color: $text-muted; }
    #why { height: auto; max-height: 50%; padding: 1 2; border-top: solid $warning; display: none; overflow-y: auto; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "sort('b')", "blocked"),
        Binding("c", "sort('c')", "link credit"),
        Binding("u", "sort('u')", "unsettled age"),
        Binding("r", "sort('r')", "rate"),
        Binding("l", "links", "all links"),
        Binding("n", "connections", "connections"),
        Binding("w", "why", "why"),
        Binding("escape", "back", "back"),
        Binding("q", "quit", "quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, admin: Admin) -> None:
        super().__init__()
        self._admin = admin
        self._order = Order.BLOCKED
        self._way: list[View] = [View("links")]
        self._asking = asyncio.Lock()
        self._why_about: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        """The widgets of the screen, from top to bottom."""
        yield Static("asking…", id="head", markup=False)
        yield Static("", id="place", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Static("", id="why", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        """Show the first page, and start the timer."""
        self.set_interval(REFRESH_S, self._refresh_unless_asking)
        await self.show_page()

    async def action_sort(self, key: str) -> None:
        """Sort the links by the order with this key."""
        self._order = Order(key)
        await self.show_page()

    async def action_links(self) -> None:
        """Show all links."""
        await self._go([View("links")])

    async def action_connections(self) -> None:
        """Show all connections."""
        await self._go([View("connections")])

    async def action_back(self) -> None:
        """Close the panel of why. Without a panel, go back to the view before."""
        if self._why_about is not None:
            self._close_why()
        elif len(self._way) > 1:
            await self._go(self._way[:-1])

    async def action_why(self) -> None:
        """Show why the link or connection under the cursor waits."""
        identity = self._chosen()
        if identity is not None:
            kind = "links" if self._view.kind == "links" else "connections"
            self._why_about = kind, identity if kind == "links" else identity.partition("/")[0]
            await self._show_why()

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Go from a connection to its sessions, from a session to its links, and from a link to its why."""
        identity = str(event.row_key.value)
        match self._view.kind:
            case "connections":
                await self._go([*self._way, View("sessions", identity)])
            case "sessions":
                await self._go([*self._way, View("links", identity)])
            case _:
                await self.action_why()

    @property
    def _view(self) -> View:
        return self._way[-1]

    async def _go(self, way: list[View]) -> None:
        self._close_why()
        self._way = way
        await self.show_page()

    async def _refresh_unless_asking(self) -> None:
        if not self._asking.locked():
            await self.show_page()

    async def show_page(self) -> None:
        """Fetch and show the current view. When the broker does not answer, the old lines stay below an error."""
        async with self._asking:
            view, order = self._view, self._order
            answer: tuple[Row, Page] | AdminError
            try:
                answer = await asyncio.to_thread(_fetched, self._admin, view, order)
            except AdminError as error:
                answer = error
            if not self.is_running:  # the user quit meanwhile, and the widgets are gone
                return
            if isinstance(answer, AdminError):
                self.query_one("#head", Static).update(f"NO ANSWER\n{rows.printable(str(answer), length_max=None)}")
                return
            overview, page = answer
            self.query_one("#head", Static).update(rows.headline(overview))
            self._show_place()
            self._show_table(page)
        await self._show_why()

    def _show_place(self) -> None:
        way = " > ".join(view.kind if view.within is None else f"{view.kind} of {view.within}" for view in self._way)
        by = f", by {self._order.words}" if self._view.kind == "links" else ""
        self.query_one("#place", Static).update(way + by)

    def _show_table(self, page: Page) -> None:
        table = self.query_one(DataTable)
        chosen = self._chosen()
        table.clear(columns=True)
        table.add_columns(*page.columns)
        for identity, cells in page.lines[:SHOWN_MAX]:
            style = "bold yellow" if identity in page.waiting else ""
            table.add_row(*(Text(cell, style=style) for cell in cells), key=identity)  # a text is no markup
        if chosen is not None and chosen in table.rows:
            table.move_cursor(row=table.get_row_index(chosen), animate=False)

    def _chosen(self) -> str | None:
        table = self.query_one(DataTable)
        if not table.row_count:
            return None
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    async def _show_why(self) -> None:
        if self._why_about is None:
            return
        panel = self.query_one("#why", Static)
        panel.styles.display = "block"
        try:
            answer = await asyncio.to_thread(self._admin.why, *self._why_about)
        except AdminError as error:
            panel.update(rows.printable(str(error), length_max=None))
        else:
            panel.update(rows.why_text(answer))

    def _close_why(self) -> None:
        self._why_about = None
        self.query_one("#why", Static).styles.display = "none"


def _fetched(admin: Admin, view: View, order: Order) -> tuple[Row, Page]:
    """Fetch a view. The requests block, so this runs in a thread."""
    overview, stalls = admin.get("overview"), admin.rows("stalls")
    match view.kind:
        case "connections":
            waiting = rows.count_by(stalls, "connection")
            found = sorted(admin.rows("connections"), key=lambda row: -waiting.get(rows.text(row, "identity"), 0))
            lines = [(rows.text(row, "identity"), rows.connection_cells(row, waiting)) for row in found]
            return overview, Page(rows.CONNECTION_COLUMNS, lines, frozenset(waiting))
        case "sessions":
            found = [row for row in admin.rows("sessions") if row.get("connection") == view.within]
            sessions = [(rows.text(row, "identity"), rows.session_cells(row)) for row in found]
            return overview, Page(rows.SESSION_COLUMNS, sessions)
        case _:
            links = rows.link_rows(
                admin.rows("links"), admin.rows("connections"), stalls, admin.flow_map(), admin.rows("sessions")
            )
            if view.within is not None:
                links = [link for link in links if link.session == view.within]
            return overview, _page_of_links(rows.sorted_links(links, order))


def _page_of_links(links: Sequence[LinkRow]) -> Page:
    waiting = frozenset(link.identity for link in links if link.reason is not None)
    return Page(rows.LINK_COLUMNS, [(link.identity, link.cells()) for link in links], waiting)
