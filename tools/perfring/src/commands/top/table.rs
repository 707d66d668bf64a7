//! The table's rows, with the user's sort order, filter and selection.

use perfring_view::row::Row;
use ratatui::crossterm::event::KeyCode as Key;
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Rate,
    Fill,
    Lag,
    Lost,
    State,
    Name,
}

impl Sort {
    const ALL: [Sort; 6] = [Sort::Rate, Sort::Fill, Sort::Lag, Sort::Lost, Sort::State, Sort::Name];

    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Rate => "rate",
            Sort::Fill => "fill",
            Sort::Lag => "lag",
            Sort::Lost => "lost",
            Sort::State => "state",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Orders the largest first, but names alphabetically.
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let rate = |row: &Row| row.rate.map_or(0.0, |(records, _)| records);
        let by = match self {
            Sort::Rate => rate(b).total_cmp(&rate(a)),
            Sort::Fill => b.fill.percent().total_cmp(&a.fill.percent()),
            Sort::Lag => b.lag.cmp(&a.lag),
            Sort::Lost => (b.lost_rate.total_cmp(&a.lost_rate)).then(b.lost.cmp(&a.lost)),
            Sort::State => b.state.cmp(&a.state),
            Sort::Name => Ordering::Equal,
        };
        by.then_with(|| a.name.cmp(&b.name)).then_with(|| a.location.cmp(&b.location))
    }
}

/// The rows, and how they are shown.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// All rows, regardless of the filter.
    pub(super) all: Vec<Row>,
    /// The rows that the filter selects, sorted.
    shown: Vec<usize>,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) editing: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) details: bool,
    /// By its location: the ring stays selected when the rows move.
    selected: Option<String>,
    /// Rows on a page, as last drawn.
    pub(super) page: usize,
    pub(super) quit: bool,
}

impl Table {
    pub(super) fn set(&mut self, rows: Vec<Row>) {
        self.all = rows;
        self.arrange();
    }

    fn arrange(&mut self) {
        let wanted = self.filter.to_lowercase();
        let takes = |row: &Row| {
            let has = |text: &str| text.to_lowercase().contains(&wanted);
            has(&row.name) || has(&row.producer) || has(&row.state.text())
        };
        self.shown = (0..self.all.len()).filter(|at| takes(&self.all[*at])).collect();
        let (all, sort) = (&self.all, self.sort);
        self.shown.sort_by(|a, b| sort.compare(&all[*a], &all[*b]));
        if self.reversed {
            self.shown.reverse();
        }
    }

    /// Returns the rows to show, in order.
    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.shown.iter().map(|at| &self.all[*at])
    }

    /// Returns the index of the selected row; the first one, if it has disappeared.
    pub(super) fn at(&self) -> usize {
        let is = |row: &Row| Some(&row.location) == self.selected.as_ref();
        self.rows().position(is).unwrap_or_default()
    }

    pub(super) fn selected(&self) -> Option<&Row> {
        self.rows().nth(self.at())
    }

    fn go(&mut self, to: usize) {
        let last = self.shown.len().saturating_sub(1);
        let location = self.rows().nth(to.min(last)).map(|row| row.location.clone());
        self.selected = location;
    }

    pub(super) fn key(&mut self, key: Key) {
        if self.editing {
            match key {
                Key::Char(c) => self.filter.push(c),
                Key::Backspace => drop(self.filter.pop()),
                Key::Esc => {
                    self.filter.clear();
                    self.editing = false;
                }
                Key::Enter => self.editing = false,
                _ => self.step(key),
            }
        } else if self.help {
            self.help = false;
        } else {
            match key {
                Key::Char('q') => self.quit = true,
                Key::Char('s') => self.sort = self.sort.next(),
                Key::Char('r') => self.reversed = !self.reversed,
                Key::Char('p' | ' ') => self.paused = !self.paused,
                Key::Char('/') => self.editing = true,
                Key::Char('?' | 'h') => self.help = true,
                Key::Enter => self.details = !self.details,
                Key::Esc if self.details => self.details = false,
                Key::Esc => self.filter.clear(),
                _ => self.step(key),
            }
        }
        self.arrange();
    }

    fn step(&mut self, key: Key) {
        let (at, page) = (self.at(), self.page.max(1));
        match key {
            Key::Up | Key::Char('k') => self.go(at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.go(at + 1),
            Key::PageUp => self.go(at.saturating_sub(page)),
            Key::PageDown => self.go(at + page),
            Key::Home | Key::Char('g') => self.go(0),
            Key::End | Key::Char('G') => self.go(usize::MAX),
            _ => {}
        }
    }
}
