//! What a cast costs by the number of actors: over hosts that exist in this process only, with the real root and gateways
//! and every edge encoded and decoded, all in one thread.
//!
//! `cargo run --release --example cast_scale` prints a table; with the name of a file it draws the picture of
//! `docs/performance.md` there as well. `--fan-outs` compares fan-outs instead.

#[path = "../tests/cast/cluster.rs"]
#[allow(dead_code, missing_docs)]
mod cluster;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cluster::{Cluster, SUM, Traffic, number};
use hyperactor::cast::{FAN_OUT, Region};

const PER_HOST: u32 = 32;
const FEWEST: u32 = 16;
const MOST: u32 = 131_072;
const ROUNDS: usize = 5;

/// One cast to all actors.
struct Measured {
    time: Duration,
    down: Traffic,
    up: Traffic,
}

struct Row {
    actors: u32,
    hosts: u32,
    gather: Measured,
    sum: Measured,
}

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("--fan-outs") {
        return compare_fan_outs();
    }
    println!(
        "| actors | hosts | cast and gather | cast and sum | frames from, to the root | bytes from the root | gathered, summed bytes to it |"
    );
    println!("|---|---|---|---|---|---|---|");
    let sizes = std::iter::successors(Some(FEWEST), |actors| Some(actors * 2)).take_while(|actors| *actors <= MOST);
    let rows: Vec<Row> = sizes.map(|actors| measure(actors, FAN_OUT)).collect();
    for row in &rows {
        let Row { actors, hosts, gather, sum } = row;
        println!(
            "| {actors} | {hosts} | {} | {} | {}, {} | {} | {}, {} |",
            milliseconds(gather.time),
            milliseconds(sum.time),
            gather.down.frames,
            gather.up.frames,
            gather.down.bytes,
            gather.up.bytes,
            sum.up.bytes,
        );
    }
    if let Some(path) = argument {
        std::fs::write(&path, picture(&rows)).unwrap_or_else(|error| panic!("cannot write {path}: {error}"));
    }
}

fn compare_fan_outs() {
    println!("| fan-out | cast and gather | cast and sum | frames from, to the root |");
    println!("|---|---|---|---|");
    for fan_out in [4, 16, 32, 64, 128, 256, 4096] {
        let Row { gather, sum, .. } = measure(MOST, fan_out);
        let (down, up) = (gather.down.frames, gather.up.frames);
        println!("| {fan_out} | {} | {} | {down}, {up} |", milliseconds(gather.time), milliseconds(sum.time));
    }
}

fn measure(actors: u32, fan_out: u32) -> Row {
    let per_host = PER_HOST.min(actors);
    let hosts = actors / per_host;
    let mut cluster = Cluster::new(hosts, per_host, fan_out);
    let ranks: Vec<u32> = (0..actors).collect();
    let region = Region::of(&ranks);
    let mut best = |reducer| {
        let rounds = (0..ROUNDS).map(|_| one(&mut cluster, &region, reducer));
        rounds.min_by_key(|measured| measured.time).expect("more than no rounds")
    };
    let (gather, sum) = (best(None), best(Some(SUM)));
    let expected: Vec<u64> = (1..=2 * ROUNDS as u64).collect();
    assert!(ranks.iter().all(|rank| cluster.received(*rank) == expected), "each cast once to each actor, in order");
    Row { actors, hosts, gather, sum }
}

/// Cast to all, and wait for all answers; each of them is looked at.
fn one(cluster: &mut Cluster, region: &Region, reducer: Option<u32>) -> Measured {
    (cluster.from_root, cluster.to_root) = Default::default();
    let actors = region.len();
    let begin = Instant::now();
    let call = cluster.cast(region.clone(), true, reducer);
    cluster.run();
    let time = begin.elapsed();
    let outcome = cluster.outcomes.remove(&call).expect("a call has an outcome");
    if reducer.is_none() {
        let right = outcome.places.iter().all(|(place, value)| *value == Some(u64::from(*place)));
        assert!(right && outcome.places.len() as u64 == actors, "each actor answers with its rank");
    } else {
        let (value, count, missing) = outcome.combined.expect("a combined answer");
        let value = number(&value.expect("a sum"));
        assert_eq!((value, count, missing), (actors * (actors - 1) / 2, actors, 0));
    }
    Measured { time, down: cluster.from_root, up: cluster.to_root }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 310.0;
const RIGHT: f64 = 500.0;

/// Both axes logarithmic, so what grows in proportion is a straight line.
fn picture(rows: &[Row]) -> String {
    let x = |actors: u32| {
        let (first, last) = (f64::from(FEWEST).log2(), f64::from(MOST).log2());
        LEFT + (f64::from(actors).log2() - first) / (last - first) * (RIGHT - LEFT)
    };
    // From 1 to 10^8: microseconds, frames and bytes on one axis.
    let y = |value: f64| BOTTOM - value.max(1.0).log10() / 8.0 * (BOTTOM - TOP);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' font-size='11'>\n\
         <rect width='100%' height='100%' fill='white'/>\n"
    );
    for power in 0..=8 {
        let at = y(10f64.powi(power));
        let _ = writeln!(svg, "<line x1='{LEFT}' x2='{RIGHT}' y1='{at:.1}' y2='{at:.1}' stroke='#ddd'/>");
        let _ = writeln!(svg, "<text x='{}' y='{:.1}' text-anchor='end'>10^{power}</text>", LEFT - 6.0, at + 4.0);
    }
    for row in rows.iter().step_by(3).chain(rows.last()) {
        let at = x(row.actors);
        let _ = writeln!(svg, "<text x='{at:.1}' y='{}' text-anchor='middle'>{}</text>", BOTTOM + 16.0, row.actors);
    }
    let _ =
        writeln!(svg, "<text x='{}' y='{}' text-anchor='middle'>actors</text>", (LEFT + RIGHT) / 2.0, BOTTOM + 36.0);
    type Value = fn(&Row) -> f64;
    let lines: [(&str, &str, Value); 5] = [
        ("#d62728", "gathered bytes", |row| row.gather.up.bytes as f64),
        ("#1f77b4", "cast and gather, µs", |row| row.gather.time.as_secs_f64() * 1e6),
        ("#17becf", "cast and sum, µs", |row| row.sum.time.as_secs_f64() * 1e6),
        ("#ff7f0e", "summed bytes", |row| row.sum.up.bytes as f64),
        ("#2ca02c", "frames from the root", |row| row.gather.down.frames as f64),
    ];
    let mut labels: Vec<(f64, &str, &str)> = Vec::new();
    for (colour, label, value) in lines {
        let points: Vec<String> = rows.iter().map(|row| format!("{:.1},{:.1}", x(row.actors), y(value(row)))).collect();
        let _ =
            writeln!(svg, "<polyline fill='none' stroke='{colour}' stroke-width='2' points='{}'/>", points.join(" "));
        labels.extend(rows.last().map(|row| (y(value(row)), label, colour)));
    }
    labels.sort_by(|one, next| one.0.total_cmp(&next.0));
    let mut free = TOP;
    for (at, label, colour) in labels {
        let at = at.max(free);
        free = at + 14.0;
        let _ = writeln!(svg, "<text x='{}' y='{:.1}' fill='{colour}'>{label}</text>", RIGHT + 8.0, at + 4.0);
    }
    svg + "</svg>\n"
}
