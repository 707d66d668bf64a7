//! Draws the table: from 80 columns on, with more columns where there is room.

use super::table::Table;
use perfring_figures::accounts::Fill;
use perfring_view::row::{Row, State};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row as Cells, Table as Grid, TableState};

/// From this width on there is a column for the producer.
const WIDE: u16 = 100;
/// The columns of the marker and of everything but names, with the spaces between them.
const FIGURES: u16 = 62;
/// The shortest column of names.
const NAME: u16 = 12;
const HELP: [(&str, &str); 9] = [
    ("q, Ctrl-C", "quit"),
    ("up, down, j, k", "select a ring"),
    ("PgUp, PgDn, g, G", "by pages; first, last"),
    ("Enter", "show or hide the ring's details"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by name, producer or state; Esc clears"),
    ("p, space", "pause or continue"),
    ("?, h", "this help"),
];

/// Draws everything. `about` says what is watched.
pub(super) fn draw(frame: &mut Frame<'_>, table: &mut Table, about: &str) {
    let area = frame.area();
    let details = table.details && area.height >= 16;
    let below = if details { (area.height / 2).min(14) } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(2),
        Constraint::Length(below),
        Constraint::Length(1),
    ]);
    let [top, middle, bottom, foot] = parts.areas(area);
    head(frame, top, table, about);
    rings(frame, middle, table);
    if details {
        about_one(frame, bottom, table);
    }
    keys(frame, foot, table);
    if table.help {
        help(frame, area);
    }
}

fn head(frame: &mut Frame<'_>, area: Rect, table: &Table, about: &str) {
    let all = &table.all;
    let sum = |of: fn(&Row) -> f64| all.iter().map(of).sum::<f64>();
    let rate = sum(|row| row.rate.map_or(0.0, |(records, _)| records));
    let bytes = sum(|row| row.rate.map_or(0.0, |(_, bytes)| bytes));
    let lost = all.iter().map(|row| row.lost).fold(0, u64::saturating_add);
    let ill = all.iter().filter(|row| is_ill(row.state)).count();
    let state = if table.paused { " PAUSED ".reversed() } else { Span::raw("") };
    let title = Line::from(vec![
        "perfring top ".bold(),
        Span::raw(about.to_owned()),
        Span::raw(" "),
        state,
    ]);
    let rings = if all.len() == 1 { "1 ring".to_owned() } else { format!("{} rings", all.len()) };
    let sums = format!(
        "{rings}, {} records/s, {}B/s, {} lost, {ill} in trouble",
        number(rate),
        number(bytes),
        number(lost as f64)
    );
    frame.render_widget(Paragraph::new(vec![title, Line::raw(sums)]), area);
}

fn rings(frame: &mut Frame<'_>, area: Rect, table: &mut Table) {
    table.page = usize::from(area.height.saturating_sub(1));
    let wide = area.width >= WIDE;
    let mut titles = vec!["RING", "REC/S", "B/S", "FILL", "LAG", "LOST", "LOST/S", "STATE"];
    let rest = area.width.saturating_sub(FIGURES);
    let longest = table.rows().map(|row| row.name.chars().count()).max().unwrap_or_default();
    let longest = u16::try_from(longest).unwrap_or(u16::MAX);
    // No wider than the names need, so that figures stand beside them; the rest is the producer's.
    let name = match wide {
        true => longest.clamp(NAME, (rest / 3 * 2).max(NAME)),
        false => rest.max(NAME),
    };
    let producer = rest.saturating_sub(name + 1);
    let mut widths = vec![
        Constraint::Length(name),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(11),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(13),
    ];
    if wide {
        titles.push("PRODUCER");
        widths.push(Constraint::Length(producer));
    }
    let right = |text: String| Line::raw(text).alignment(Alignment::Right);
    let cells = |row: &Row| {
        let (records, bytes) = row
            .rate
            .map_or(("-".into(), "-".into()), |(records, bytes)| (number(records), number(bytes)));
        let mut cells = vec![
            Line::raw(shortened(&plain(&row.name), name)),
            right(records),
            right(bytes),
            Line::raw(bar(row.fill)),
            right(row.lag.map_or("-".to_owned(), |lag| number(lag as f64))),
            right(number(row.lost as f64)),
            right(number(row.lost_rate)),
            Line::styled(row.state.text(), style(row.state)),
        ];
        if wide {
            cells.push(Line::raw(shortened(&plain(&row.producer), producer)));
        }
        Cells::new(cells)
    };
    let header = titles.iter().enumerate().map(|(at, title)| {
        let line = Line::raw(*title);
        if matches!(at, 1 | 2 | 4..=6) { line.alignment(Alignment::Right) } else { line }
    });
    let grid = Grid::new(table.rows().map(cells), widths)
        .header(Cells::new(header).style(Style::new().add_modifier(Modifier::REVERSED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD))
        .highlight_symbol(">")
        .column_spacing(1);
    let mut state = TableState::new().with_selected((table.rows().len() > 0).then(|| table.at()));
    frame.render_stateful_widget(grid, area, &mut state);
    if table.rows().len() == 0 && area.height > 2 {
        let why = if table.filter.is_empty() {
            "no rings here yet"
        } else {
            "no ring matches the filter"
        };
        let middle = Rect { y: area.y + 2, height: 1, ..area };
        frame.render_widget(Paragraph::new(why).alignment(Alignment::Center), middle);
    }
}

fn about_one(frame: &mut Frame<'_>, area: Rect, table: &Table) {
    let Some(row) = table.selected() else { return };
    let mut lines = Vec::new();
    if let Some(trouble) = &row.trouble {
        lines.push(Line::from(plain(trouble)).bold());
    }
    let pair = |(name, value): &(String, String)| format!("{name:<12} {}", plain(value));
    let words = row.details.iter().filter(|(_, value)| !value.ends_with(" bytes"));
    lines.extend(words.map(|detail| Line::raw(pair(detail))));
    // The counts in one line, as there are many.
    let counts: Vec<String> = row
        .details
        .iter()
        .filter(|(_, value)| value.ends_with(" bytes"))
        .map(|(name, value)| {
            let records = value.split(' ').next().and_then(|n| n.parse::<f64>().ok());
            format!("{name} {}", number(records.unwrap_or_default()))
        })
        .collect();
    lines.push(Line::raw(counts.join("  ")));
    let block = Block::bordered().title(format!(" {} ", plain(&row.location)));
    let text = Paragraph::new(lines).wrap(ratatui::widgets::Wrap { trim: true }).block(block);
    frame.render_widget(text, area);
}

fn keys(frame: &mut Frame<'_>, area: Rect, table: &Table) {
    let line = if table.editing {
        format!("/{}_   Enter keeps it, Esc clears it", plain(&table.filter))
    } else {
        let order = if table.reversed { ", reversed" } else { "" };
        let filter = match &*table.filter {
            "" => String::new(),
            filter => format!("  filter: {}", plain(filter)),
        };
        let sort = table.sort.name();
        format!("q quit  s sort ({sort}{order})  / filter  p pause  Enter details  ? help{filter}")
    };
    frame.render_widget(Paragraph::new(line).dim(), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let height = (HELP.len() as u16 + 2).min(area.height);
    let width = 70.min(area.width);
    let at = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let lines = HELP.map(|(key, what)| Line::raw(format!("{key:<18}{what}")));
    frame.render_widget(Clear, at);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), at);
}

/// Returns whether the ring needs attention.
fn is_ill(state: State) -> bool {
    state >= State::Stalled(std::time::Duration::ZERO)
}

fn style(state: State) -> Style {
    match state {
        State::Ok => Style::new().green(),
        State::Quiet(_) | State::Ended => Style::new().dim(),
        State::NoProducer | State::NoConsumer => Style::new().yellow(),
        _ => Style::new().red().bold(),
    }
}

/// Formats five columns of bar and the percentage.
fn bar(fill: Fill) -> String {
    let fill = Fill { used: fill.used.min(fill.size), ..fill };
    let full = (fill.percent() / 20.0).round() as usize;
    format!("{}{} {:>4}", "#".repeat(full), ".".repeat(5 - full), fill.text(0))
}

/// Formats a number in six columns at most.
fn number(value: f64) -> String {
    match value {
        ..0.05 => "0".to_owned(),
        v @ ..9.95 => format!("{v:.1}").trim_end_matches(".0").to_owned(),
        v @ ..9_999.5 => format!("{v:.0}"),
        v @ ..999_950.0 => format!("{:.1}k", v / 1e3),
        v @ ..999_950_000.0 => format!("{:.1}M", v / 1e6),
        v @ ..999_950_000_000.0 => format!("{:.1}G", v / 1e9),
        v => format!("{:.0}T", v / 1e12),
    }
}

/// Leaves out the middle of a text that is too long: names differ in their ends.
fn shortened(text: &str, width: u16) -> String {
    let (count, width) = (text.chars().count(), usize::from(width));
    if count <= width {
        return text.to_owned();
    }
    let end = width.saturating_sub(1) / 2;
    let begin = width.saturating_sub(1) - end;
    let chars = text.chars();
    chars.clone().take(begin).chain(['…']).chain(chars.skip(count - end)).take(width).collect()
}

/// Removes what would disturb a terminal: names come from files.
fn plain(text: &str) -> String {
    text.chars().map(|c| if perfring_types::read::disturbs(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode as Key;
    use std::time::Duration;

    fn row(name: &str, state: State, rate: f64, used: u64, lost: u64) -> Row {
        Row {
            name: name.to_owned(),
            location: format!("/run/perfring/{name}"),
            state,
            trouble: (state == State::HeldUp).then(|| {
                "held up by slot 3 (shop, pid 77), dead: run `perfring recover`".to_owned()
            }),
            fill: Fill { used, size: 1 << 20 },
            rate: Some((rate, rate * 64.0)),
            lag: (name != "flight").then_some(used / 64),
            lost,
            lost_rate: lost as f64 / 10.0,
            producer: format!("{name} 41"),
            details: vec![
                ("producer".into(), format!("alive: {name}, pid 41, uid 1000 (attach 2)")),
                ("consumer".into(), "none so far".into()),
                ("written".into(), "123456 records, 7901184 bytes".into()),
                ("full".into(), format!("{lost} records, {} bytes", lost * 64)),
            ],
            ..Row::default()
        }
    }

    fn table() -> Table {
        let mut table = Table::default();
        table.set(vec![
            row("orders", State::Ok, 1_234_567.0, 300_000, 0),
            row("flight", State::Quiet(Duration::from_secs(754)), 0.0, 1 << 20, 0),
            row("a-very-long-name-of-a-ring-indeed", State::Losing, 20.0, 1 << 20, 98_765),
            row("esc\u{1b}[31m", State::HeldUp, 3.5, 64, 2),
        ]);
        table
    }

    fn drawn(width: u16, height: u16, table: &mut Table) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, table, "/run/perfring")).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn eighty_columns_are_enough() {
        insta::assert_snapshot!(drawn(80, 12, &mut table()));
    }

    #[test]
    fn a_wide_terminal_shows_producers() {
        insta::assert_snapshot!(drawn(120, 9, &mut table()));
    }

    #[test]
    fn a_very_wide_terminal_cuts_nothing_and_keeps_figures_beside_names() {
        let drawn = drawn(200, 9, &mut table());
        for name in ["a-very-long-name-of-a-ring-indeed ", "a-very-long-name-of-a-ring-indeed 41"] {
            assert!(drawn.contains(name), "{drawn}");
        }
        insta::assert_snapshot!("two_hundred_columns", drawn);
    }

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shortened("worker-000017", 12), "worker…00017");
        assert_eq!(shortened("worker-17", 9), "worker-17");
        assert_eq!(["abc"; 3].map(|text| shortened(text, 1)), ["…"; 3]);
        assert_eq!(shortened("abc", 0), "");
    }

    #[test]
    fn details_help_pause_and_filter_are_drawn() {
        let mut table = table();
        table.sort = crate::commands::top::table::Sort::State;
        for key in [Key::Enter, Key::Char('p')] {
            table.key(key);
        }
        insta::assert_snapshot!("details", drawn(80, 24, &mut table));
        for key in [Key::Char('/'), Key::Char('q')] {
            table.key(key);
        }
        assert!(!table.quit, "q is a letter of the filter");
        insta::assert_snapshot!("filter", drawn(80, 24, &mut table));
        for key in [Key::Esc, Key::Char('?')] {
            table.key(key);
        }
        insta::assert_snapshot!("help", drawn(80, 24, &mut table));
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut table = table();
        table.details = true;
        table.help = true;
        for (width, height) in [(1, 1), (10, 3), (40, 17), (79, 50), (300, 100)] {
            let _ = drawn(width, height, &mut table);
        }
    }

    #[test]
    fn keys_select_sort_and_filter() {
        let mut table = table();
        let names = |table: &Table| -> Vec<String> {
            table.rows().map(|row| row.name.chars().take(3).collect()).collect()
        };
        assert_eq!(names(&table), ["ord", "a-v", "esc", "fli"]);
        table.key(Key::Down);
        assert_eq!(
            table.selected().map(|row| &*row.name),
            Some("a-very-long-name-of-a-ring-indeed")
        );
        table.key(Key::Char('s'));
        assert_eq!(names(&table), ["a-v", "fli", "ord", "esc"], "by fill");
        assert_eq!(table.at(), 0, "the same ring is selected");
        table.key(Key::Char('r'));
        assert_eq!(names(&table), ["esc", "ord", "fli", "a-v"]);
        table.key(Key::End);
        assert_eq!(table.at(), 3);
        for key in [Key::Char('/'), Key::Char('O'), Key::Char('R'), Key::Enter] {
            table.key(key);
        }
        assert_eq!(names(&table), ["ord"]);
        table.key(Key::Esc);
        assert_eq!(table.rows().len(), 4);
        table.key(Key::Char('q'));
        assert!(table.quit);
    }

    #[test]
    fn numbers_fit_six_columns() {
        let shown =
            [0.0, 0.04, 3.5, 9.96, 42.0, 9_999.0, 10_000.0, 999_949.0, 1e6, 123e9, 5e12, 1e15];
        let texts = shown.map(number);
        assert!(texts.iter().all(|text| text.len() <= 6), "{texts:?}");
        assert_eq!(texts[..8], ["0", "0", "3.5", "10", "42", "9999", "10.0k", "999.9k"]);
    }
}
