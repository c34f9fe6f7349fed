//! The last words of a process.

use serde::{Deserialize, Serialize};

use super::files::LogFile;

/// What a process wrote last on its standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// Its last lines.
    pub lines: Vec<String>,
    /// The file that has all of them; empty where it is gone with the process.
    pub file: String,
}

/// A longer line says in its beginning what it is about.
const LONGEST_LINE: usize = 300;

/// Where the last lines are looked for: a traceback fits many times.
const LOOKED_AT_BYTES: usize = 32 << 10;

impl Tail {
    /// The last `count` lines of `file`; none if it is empty.
    pub(super) fn of(file: &LogFile, count: u32) -> Option<Box<Self>> {
        let text = file.end(LOOKED_AT_BYTES);
        let lines = last_lines(&String::from_utf8_lossy(&text), count as usize);
        (!lines.is_empty()).then(|| Box::new(Self { lines, file: file.path.clone() }))
    }
}

fn last_lines(text: &str, count: usize) -> Vec<String> {
    let mut lines: Vec<String> = text.trim_end().lines().rev().take(count).map(shown).collect();
    lines.reverse();
    lines
}

/// As a terminal shows it in the end, and cut where it is long.
fn shown(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_last_lines_without_blank_ones_after_them() {
        assert_eq!(last_lines("a\nb\nc\n\n", 2), ["b", "c"]);
        assert_eq!(last_lines("half", 20), ["half"]);
        assert_eq!(last_lines("", 20), [""; 0]);
        assert_eq!(last_lines("a\n", 0), [""; 0]);
    }

    #[test]
    fn a_line_is_cut_and_a_progress_bar_is_its_last_state() {
        assert_eq!(shown("10%\r20%\r"), "20%");
        assert_eq!(shown(&"ä".repeat(1000)).chars().count(), LONGEST_LINE + 2);
    }
}
