//! Folding: equal lines of several ranks become one that says whose it is. State and its changes, without a clock.
//!
//! # Invariants
//! - **FOLD-1** Every line is in exactly one group, and a group has at most one line of each rank.
//! - **FOLD-2** The groups of a rank come out in the order of its lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{LogOptions, Origin};

/// Lines of one stream of one mesh that wait for equal ones.
pub(super) struct Window {
    /// When they come out.
    pub(super) due: Instant,
    groups: Vec<Group>,
    /// Where lines of one template are among the groups, in order.
    places: HashMap<Vec<u8>, Vec<usize>>,
    /// Where the last line of a rank is.
    last: HashMap<u32, usize>,
    bytes: usize,
}

/// Equal lines, each of another rank.
pub(super) struct Group {
    origins: Vec<Arc<Origin>>,
    line: Vec<u8>,
    /// The smallest and the largest of the numbers at each place, as they were written.
    extremes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// More is not held back.
const MOST_BYTES: usize = 1 << 20;

impl Window {
    pub(super) fn new(now: Instant, options: &LogOptions) -> Self {
        Self {
            due: now + Duration::from_millis(options.window_ms.into()),
            groups: Vec::new(),
            places: HashMap::new(),
            last: HashMap::new(),
            bytes: 0,
        }
    }

    /// Take a line in. False when it is time to let all out.
    pub(super) fn push(&mut self, origin: &Arc<Origin>, line: &[u8], merge_numbers: bool) -> bool {
        let (template, numbers) = if merge_numbers { template(line) } else { (line.to_vec(), Vec::new()) };
        let rank = origin.proc.rank;
        let after = self.last.get(&rank).map_or(0, |last| last + 1);
        let places = self.places.entry(template).or_default();
        let place = match places.get(places.partition_point(|place| *place < after)) {
            Some(&place) => {
                self.groups[place].join(origin, &numbers);
                place
            }
            None => {
                places.push(self.groups.len());
                self.groups.push(Group::new(origin, line, numbers));
                self.bytes += line.len();
                self.groups.len() - 1
            }
        };
        self.last.insert(rank, place);
        self.bytes += size_of::<Origin>();
        self.bytes < MOST_BYTES
    }

    pub(super) fn into_groups(self) -> Vec<Group> {
        self.groups
    }
}

impl Group {
    fn new(origin: &Arc<Origin>, line: &[u8], numbers: Vec<&[u8]>) -> Self {
        let extremes = numbers.into_iter().map(|number| (number.to_vec(), number.to_vec())).collect();
        Self { origins: vec![origin.clone()], line: line.to_vec(), extremes }
    }

    fn join(&mut self, origin: &Arc<Origin>, numbers: &[&[u8]]) {
        self.origins.push(origin.clone());
        for ((least, most), number) in self.extremes.iter_mut().zip(numbers) {
            if value(number) < value(least) {
                *least = number.to_vec();
            } else if value(number) > value(most) {
                *most = number.to_vec();
            }
        }
    }

    /// Write it as one line: `[trainers 0-2,5] loss 0.3..0.7`. A host is named where it is not `here`.
    pub(super) fn write(&self, out: &mut Vec<u8>, ranks: bool, here: &str) {
        write_origins(&self.origins, out, ranks, here);
        self.write_line(out);
        out.push(b'\n');
    }

    fn write_line(&self, out: &mut Vec<u8>) {
        let mut extremes = self.extremes.iter();
        for piece in pieces(&self.line) {
            let (Piece::Number(text) | Piece::Text(text)) = piece;
            let extremes = if matches!(piece, Piece::Number(_)) { extremes.next() } else { None };
            match extremes {
                Some((least, most)) if least != most => {
                    out.extend_from_slice(least);
                    out.extend_from_slice(b"..");
                    out.extend_from_slice(most);
                }
                _ => out.extend_from_slice(text),
            }
        }
    }
}

/// Write a line that waits for no other, as a group of its own would be.
pub(super) fn write_single(origin: &Arc<Origin>, line: &[u8], out: &mut Vec<u8>, ranks: bool, here: &str) {
    write_origins(std::slice::from_ref(origin), out, ranks, here);
    out.extend_from_slice(line);
    out.push(b'\n');
}

fn write_origins(origins: &[Arc<Origin>], out: &mut Vec<u8>, ranks: bool, here: &str) {
    out.push(b'[');
    out.extend_from_slice(origins[0].mesh.as_bytes());
    if ranks {
        out.push(b' ');
        out.extend_from_slice(spans(origins.iter().map(|origin| origin.proc.rank)).as_bytes());
    }
    let mut hosts: Vec<&str> = origins.iter().map(|origin| origin.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts != [here] {
        out.push(b' ');
        out.extend_from_slice(hosts.join(",").as_bytes());
    }
    out.extend_from_slice(b"] ");
}

/// A line without its numbers, and these.
fn template(line: &[u8]) -> (Vec<u8>, Vec<&[u8]>) {
    let mut template = Vec::with_capacity(line.len());
    let mut numbers = Vec::new();
    for piece in pieces(line) {
        match piece {
            Piece::Text(text) => template.extend_from_slice(text),
            Piece::Number(text) => {
                template.push(b'0');
                numbers.push(text);
            }
        }
    }
    (template, numbers)
}

enum Piece<'a> {
    Text(&'a [u8]),
    Number(&'a [u8]),
}

/// Numbers (digits, perhaps with a point among them) and what is between them.
fn pieces(mut line: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let first = line.first()?;
        if !is_digit(first) {
            let end = line.iter().position(is_digit).unwrap_or(line.len());
            let (text, rest) = line.split_at(end);
            line = rest;
            return Some(Piece::Text(text));
        }
        let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| is_digit(byte)).count();
        let whole = digits(line);
        let fraction = if line.get(whole) == Some(&b'.') { digits(&line[whole + 1..]) } else { 0 };
        let (number, rest) = line.split_at(if fraction > 0 { whole + 1 + fraction } else { whole });
        line = rest;
        Some(Piece::Number(number))
    })
}

fn value(number: &[u8]) -> f64 {
    str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// `0-3,7` for 0, 1, 2, 3 and 7.
fn spans(ranks: impl Iterator<Item = u32>) -> String {
    let mut ranks: Vec<u32> = ranks.collect();
    ranks.sort_unstable();
    let spans = ranks.chunk_by(|a, b| a + 1 == *b).map(|span| match span {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    spans.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{MeshId, ProcId};

    fn origin(rank: u32) -> Arc<Origin> {
        Arc::new(Origin { proc: ProcId::first(MeshId([1; 16]), rank), mesh: "w".into(), host: "here".into() })
    }

    fn folded(lines: &[(u32, &str)], merge_numbers: bool) -> Vec<String> {
        let mut window = Window::new(Instant::now(), &LogOptions::default());
        for (rank, line) in lines {
            window.push(&origin(*rank), line.as_bytes(), merge_numbers);
        }
        let shown = |group: &Group| {
            let mut out = Vec::new();
            group.write(&mut out, true, "here");
            String::from_utf8(out).unwrap().trim_end().to_owned()
        };
        window.groups.iter().map(shown).collect()
    }

    #[test]
    fn equal_lines_of_several_ranks_are_one_that_names_them() {
        let lines = [(0, "ready"), (2, "ready"), (1, "ready"), (5, "ready"), (1, "other")];
        assert_eq!(folded(&lines, false), ["[w 0-2,5] ready", "[w 1] other"]);
    }

    #[test]
    fn a_repetition_of_one_rank_is_a_line_of_its_own() {
        assert_eq!(folded(&[(0, "x"), (0, "x"), (1, "x")], false), ["[w 0-1] x", "[w 0] x"]);
    }

    #[test]
    fn numbers_are_merged_to_their_extremes() {
        let lines = [(0, "step 7: loss 0.50"), (1, "step 7: loss 0.25"), (2, "step 7: loss 10.0")];
        assert_eq!(folded(&lines, true), ["[w 0-2] step 7: loss 0.25..10.0"]);
        assert_eq!(folded(&lines, false).len(), 3);
    }

    #[test]
    fn a_host_is_named_where_it_is_another() {
        let mut out = Vec::new();
        write_single(&origin(3), b"x", &mut out, true, "elsewhere");
        assert_eq!(out, b"[w 3 here] x\n");
        out.clear();
        write_single(&origin(3), b"x", &mut out, false, "here");
        assert_eq!(out, b"[w] x\n");
    }

    #[test]
    fn bytes_that_are_no_text_pass_through() {
        let mut window = Window::new(Instant::now(), &LogOptions::default());
        window.push(&origin(0), b"\xff\x00 1.2.3", true);
        let mut out = Vec::new();
        window.groups[0].write(&mut out, true, "here");
        assert_eq!(out, b"[w 0] \xff\x00 1.2.3\n");
    }

    proptest! {
        #[test]
        fn fold_1_and_2_every_line_is_in_one_group_and_a_ranks_groups_are_in_order(
            lines in prop::collection::vec((0u32..4, 0u8..3), 0..60),
        ) {
            let mut window = Window::new(Instant::now(), &LogOptions::default());
            for (rank, line) in &lines {
                window.push(&origin(*rank), &[*line], false);
            }
            for rank in 0..4 {
                let written: Vec<u8> = lines.iter().filter(|(r, _)| *r == rank).map(|(_, line)| *line).collect();
                let of_rank = |group: &&Group| group.origins.iter().any(|origin| origin.proc.rank == rank);
                let shown: Vec<u8> = window.groups.iter().filter(of_rank).map(|group| group.line[0]).collect();
                prop_assert_eq!(shown, written);
            }
            let total: usize = window.groups.iter().map(|group| group.origins.len()).sum();
            prop_assert_eq!(total, lines.len());
        }
    }
}
