//! A ranking of disks as one HTML file that asks for nothing else: a table for each figure, without a script.

use askama::Template;
use qd1_model::metric::{Better, Unit, metric};
use qd1_model::order::Order as _;
use qd1_model::ranking::{ClassGrade, GradedDisk, OfProduct, Place, RankList, RankedDisk, Ranking};
use qd1_model::{Estimate, OpClass, printable};

use super::{STYLE, policy};
use crate::page::unbroken;
use crate::sections::verdicts;
use crate::words;

/// What disks cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// Their unit, such as `EUR per month`.
    pub header: String,
    /// One for each disk of the ranking, where it is known.
    pub of: Vec<Option<f64>>,
}

/// Width of a bar, between its margins of [`MARGIN`].
const BAR: f64 = 196.0;
const MARGIN: f64 = 4.0;

#[derive(Template)]
#[template(path = "ranking.html")]
struct Page {
    title: String,
    subtitle: String,
    policy: String,
    style: &'static str,
    grades: Option<Grades>,
    how: String,
    first: Vec<List>,
    rest: Vec<List>,
    products: Vec<Product>,
    disks: Vec<Disk>,
    price_header: Option<String>,
    left_out: Vec<String>,
    version: &'static str,
}

struct Disk {
    name: String,
    runs: usize,
    price: String,
    tools: String,
}

/// The hosts of a product by one figure.
struct Product {
    name: String,
    hosts: usize,
    figure: String,
    median: String,
    worst: String,
    times: String,
}

/// Disks by classes of workload.
struct Grades {
    columns: Vec<String>,
    rows: Vec<GradeRow>,
}

struct GradeRow {
    name: String,
    cells: Vec<Option<GradeCell>>,
}

struct GradeCell {
    word: String,
    color: &'static str,
    figure: String,
    runs: String,
}

struct List {
    title: String,
    about: String,
    figure: String,
    rows: Vec<Row>,
}

struct Row {
    rank: String,
    begins_rank: bool,
    name: String,
    value: String,
    interval: String,
    bar: Option<Bar>,
    runs: u64,
    price: String,
    remark: &'static str,
}

/// Where an interval begins and ends, and its value, along the bar.
struct Bar {
    low: String,
    value: String,
    high: String,
}

const HOW: &str = "A disk's rank is one more than the number of disks that are certainly better: their intervals do \
                   not overlap with this disk's. Two disks whose intervals overlap may still differ. A disk has no \
                   rank if it has no interval, or if its only run was disturbed by something else. In 95 of 100 \
                   tables all intervals hold. If any disk has several runs, intervals are based on how much runs \
                   differ; otherwise on each single run, which does not show how a disk changes from one day to the \
                   next.";
const FRONTIER: &str = "on the price frontier";
const HOW_PRICES: &str =
    " On the price frontier: every cheaper disk is certainly worse, and none of the same price is certainly better.";

/// Returns the page. `left_out` says which files of the folder are not ranked, and why.
#[must_use]
pub fn ranking_html(ranking: &Ranking, prices: Option<&Prices>, left_out: &[String]) -> String {
    let of = |list: &RankList| list_of(ranking, list, prices);
    let most = ranking.lists.iter().map(|list| list.places.len()).max().unwrap_or(0);
    let mut lists: Vec<&RankList> = ranking.lists.iter().collect();
    lists.order_by_key(|list| std::cmp::Reverse(list.places.len()));
    // What programs wait for the longest comes first, then what all disks have in common, and the whole.
    let commits = of_commits(&lists);
    lists.retain(|list| !commits.iter().any(|commit| std::ptr::eq(*commit, *list)));
    let (leading, others): (Vec<&RankList>, Vec<&RankList>) =
        lists.into_iter().partition(|list| list.leads && list.places.len() == most);
    let mut first: Vec<List> = commits.into_iter().map(of).collect();
    first.extend(leading.into_iter().map(of));
    first.extend(ranking.overall.iter().map(|places| overall(ranking, places, prices)));
    let page = Page {
        title: format!("Ranking of {} disks", (0..ranking.disks.len()).filter(|disk| ranking.has(*disk)).count()),
        subtitle: "Ranked by verdicts and by the tail of commits, then by every figure that at least two disks have."
            .to_owned(),
        policy: policy(&[]),
        style: STYLE,
        grades: grades(ranking),
        how: format!("{HOW}{}", if prices.is_some() { HOW_PRICES } else { "" }),
        first,
        rest: others.into_iter().map(of).collect(),
        products: ranking.products.iter().map(product).collect(),
        disks: ranking
            .disks
            .iter()
            .enumerate()
            .filter(|(at, _)| ranking.has(*at))
            .map(|(at, disk)| described(at, disk, prices))
            .collect(),
        price_header: prices.map(|prices| printable(&prices.header).into_owned()),
        left_out: left_out.iter().map(|line| printable(line).into_owned()).collect(),
        version: env!("CARGO_PKG_VERSION"),
    };
    page.render().expect("writing to a String cannot fail")
}

/// The tables of the p99 of commits: that of the most disks, and others if they have disks that it lacks.
fn of_commits<'a>(lists: &[&'a RankList]) -> Vec<&'a RankList> {
    let mut found: Vec<&RankList> =
        lists.iter().copied().filter(|list| list.op == OpClass::Commit && list.metric == "lat_p99_ns").collect();
    // Most programs have one writer.
    found.order_by_key(|list| (list.step != "commit1", std::cmp::Reverse(list.places.len())));
    let mut seen: Vec<usize> = Vec::new();
    found.retain(|list| {
        let is_new = list.places.iter().any(|place| !seen.contains(&place.disk));
        seen.extend(list.places.iter().map(|place| place.disk));
        is_new
    });
    found
}

/// The grades of the disks; `None` where none was judged by classes.
fn grades(ranking: &Ranking) -> Option<Grades> {
    let mut columns: Vec<&str> = Vec::new();
    for class in ranking.graded.iter().flat_map(|graded| &graded.classes) {
        if !columns.contains(&class.verdict.title.as_str()) {
            columns.push(&class.verdict.title);
        }
    }
    let cell = |class: &ClassGrade| GradeCell {
        word: class.verdict.grade.name().to_uppercase(),
        color: verdicts::color(class.verdict.grade),
        figure: words::deciding(&class.verdict)
            .first()
            .map_or_else(String::new, |judged| unbroken(&printable(&verdicts::figure(judged)))),
        runs: if class.runs > 1 { format!("{} of {} runs", class.alike, class.runs) } else { String::new() },
    };
    let row = |graded: &GradedDisk| {
        let of = |title: &&str| graded.classes.iter().find(|class| class.verdict.title == **title).map(cell);
        let name = printable(&ranking.disks[graded.disk].name).into_owned();
        GradeRow { name, cells: columns.iter().map(of).collect() }
    };
    (!columns.is_empty()).then(|| Grades {
        columns: columns.iter().map(|title| printable(title).into_owned()).collect(),
        rows: ranking.graded.iter().filter(|graded| ranking.has(graded.disk)).map(row).collect(),
    })
}

fn described(at: usize, disk: &RankedDisk, prices: Option<&Prices>) -> Disk {
    Disk {
        name: printable(&disk.name).into_owned(),
        runs: disk.runs,
        price: price(prices, at),
        tools: disk.tools.iter().map(|tool| printable(tool)).collect::<Vec<_>>().join(", "),
    }
}

fn product(of: &OfProduct) -> Product {
    let (title, unit) = metric(&of.metric).map_or(("?", Unit::Share), |metric| (metric.title, metric.unit));
    let op = of.op.name();
    let figure = if of.metric == "iops" { format!("{op}s per second") } else { format!("{title} of {op}s") };
    let times = (of.worst / of.median).max(of.median / of.worst);
    Product {
        name: printable(&of.product).into_owned(),
        hosts: of.hosts,
        figure: format!("{}: {figure}", printable(&of.step)),
        median: unit.format(of.median),
        worst: unit.format(of.worst),
        times: format!("{times:.1} x"),
    }
}

fn overall(ranking: &Ranking, places: &[Place], prices: Option<&Prices>) -> List {
    let format = |figure: &Estimate| {
        let number = |value: f64| format!("{value:.2}");
        let interval = figure.low.zip(figure.high);
        (
            figure.value.map_or_else(|| "-".to_owned(), number),
            interval.map_or_else(String::new, |(low, high)| format!("[{}..{}]", number(low), number(high))),
        )
    };
    List {
        title: "Over all kinds of operation".to_owned(),
        about:
            "Time per operation relative to the best disk: the geometric mean over the kinds of operation that all of \
                these disks have and that were not disturbed."
                .to_owned(),
        figure: "times".to_owned(),
        rows: rows(ranking, places, prices, Better::Lower, format),
    }
}

fn list_of(ranking: &Ranking, list: &RankList, prices: Option<&Prices>) -> List {
    let (title, unit, better) = metric(&list.metric)
        .map_or(("?", Unit::Share, Better::Lower), |metric| (metric.title, metric.unit, metric.better));
    let format = |figure: &Estimate| match figure.value {
        Some(value) if figure.low.is_some() => (unit.format(value), words::interval(unit, figure)),
        Some(value) => (unit.format(value), String::new()),
        None => ("not resolved".to_owned(), String::new()),
    };
    let order = if better == Better::Lower { "lowest first" } else { "highest first" };
    List {
        title: format!("{}: {} ({order})", printable(&list.step), named(list, title)),
        about: printable(&list.title).into_owned(),
        figure: title.to_owned(),
        rows: rows(ranking, &list.places, prices, better, format),
    }
}

/// `p99 of commits`, `reads per second`.
fn named(list: &RankList, title: &str) -> String {
    let op = list.op.name();
    if list.metric == "iops" { format!("{op}s per second") } else { format!("{title} of {op}s") }
}

fn rows(
    ranking: &Ranking,
    places: &[Place],
    prices: Option<&Prices>,
    better: Better,
    format: impl Fn(&Estimate) -> (String, String),
) -> Vec<Row> {
    let scale = Scale::of(places);
    let mut before = None;
    let row = |place: &Place| {
        let (value, interval) = format(&place.figure);
        let begins_rank = before.is_some_and(|before| before != place.rank);
        before = Some(place.rank);
        Row {
            rank: place.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            begins_rank,
            name: printable(&ranking.disks[place.disk].name).into_owned(),
            value,
            interval,
            bar: scale.as_ref().and_then(|scale| scale.bar(&place.figure)),
            runs: place.figure.n.max(1).min(ranking.disks[place.disk].runs as u64),
            price: price(prices, place.disk),
            remark: remark(places, place, prices, better),
        }
    };
    places.iter().map(row).collect()
}

fn price(prices: Option<&Prices>, disk: usize) -> String {
    let known = prices.and_then(|prices| prices.of.get(disk).copied().flatten());
    known.map_or_else(|| "-".to_owned(), |price| price.to_string())
}

/// A remark on a place.
fn remark(places: &[Place], place: &Place, prices: Option<&Prices>, better: Better) -> &'static str {
    if place.is_spoiled {
        return "disturbed by something else";
    }
    if place.figure.value.is_some() && place.figure.low.is_none() && place.figure.n > 1 {
        return "too few runs for an interval";
    }
    let price = |place: &Place| prices.and_then(|prices| prices.of.get(place.disk).copied().flatten());
    let limits = |place: &Place| place.rank.and(place.figure.low.zip(place.figure.high));
    let (Some(mine), Some(cost)) = (limits(place), price(place)) else { return "" };
    let beats = |other: &Place| {
        let (Some(theirs), Some(their_cost)) = (limits(other), price(other)) else { return false };
        their_cost < cost && !better.is_surely(mine, theirs) || their_cost == cost && better.is_surely(theirs, mine)
    };
    if places.iter().any(beats) { "" } else { FRONTIER }
}

/// The values of a table along a bar, by their logarithms.
struct Scale {
    low: f64,
    span: f64,
}

impl Scale {
    fn of(places: &[Place]) -> Option<Self> {
        let values = places.iter().flat_map(|place| [place.figure.low, place.figure.value, place.figure.high]);
        let logs: Vec<f64> = values.flatten().filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln).collect();
        let low = logs.iter().copied().min_by(f64::total_cmp)?;
        let high = logs.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { low, span: (high - low).max(1e-9) })
    }

    fn bar(&self, figure: &Estimate) -> Option<Bar> {
        let at = |value: f64| format!("{:.1}", MARGIN + BAR * ((value.ln() - self.low) / self.span).clamp(0.0, 1.0));
        let value = figure.value.filter(|value| *value > 0.0)?;
        let end = |end: Option<f64>| at(end.filter(|end| *end > 0.0).unwrap_or(value));
        Some(Bar { low: end(figure.low), value: at(value), high: end(figure.high) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    fn place(disk: usize, rank: Option<usize>, value: f64) -> Place {
        let figure = Estimate {
            value: Some(value),
            low: Some(value * 0.9),
            high: Some(value * 1.1),
            n: 3,
            ..Estimate::default()
        };
        Place { disk, rank, figure, is_spoiled: false }
    }

    fn ranking(names: &[&str]) -> Ranking {
        let disk = |name: &&str| RankedDisk {
            name: (*name).to_owned(),
            runs: 3,
            tools: vec!["qd1 0.1.0".to_owned()],
            product: Some("S of p".to_owned()),
        };
        Ranking {
            disks: names.iter().map(disk).collect(),
            graded: Vec::new(),
            overall: None,
            lists: vec![RankList {
                step: "commit1".to_owned(),
                title: "small writes, each made durable".to_owned(),
                op: OpClass::Commit,
                metric: "lat_p99_ns".to_owned(),
                leads: true,
                places: vec![place(1, Some(1), 1e6), place(0, Some(1), 1.1e6), place(2, Some(3), 9e6)],
            }],
            products: vec![OfProduct {
                product: "S of p".to_owned(),
                hosts: 3,
                step: "commit1".to_owned(),
                op: OpClass::Commit,
                metric: "lat_p99_ns".to_owned(),
                median: 1.1e6,
                worst: 9e6,
            }],
        }
    }

    #[test]
    fn disks_stand_in_their_order_with_interval_rank_and_price() {
        let prices = Prices { header: "EUR per month".to_owned(), of: vec![Some(4.0), Some(9.5), None] };
        let page = ranking_html(&ranking(&["a", "b", "c"]), Some(&prices), &["notes.txt: is no result".to_owned()]);
        let row = |name: &str| {
            let begin = page.find(&format!("<th scope=\"row\">{name}</th>")).unwrap();
            page[begin..].split("</tr>").next().unwrap().to_owned()
        };
        assert!(page.find(">b</th>").unwrap() < page.find(">a</th>").unwrap());
        assert!(row("b").contains("1.00 ms") && row("b").contains("[0.90..1.10]") && row("b").contains(">9.5<"));
        assert!(row("a").contains(FRONTIER) && !row("b").contains(FRONTIER));
        let product = row("S of p");
        assert!(
            product.contains("p99 of commits") && product.contains("1.10 ms") && product.contains("8.2 x"),
            "{product}"
        );
        assert!(page.contains("class=\"begins\"") && page.contains("notes.txt: is no result"));
        assert!(page.contains("script-src &#39;none&#39;") || page.contains("script-src 'none'"), "no script may run");
        assert!(!page.contains("<script"));
    }

    #[test]
    fn verdicts_come_first_then_commits_and_then_the_rest() {
        let mut found = ranking(&["a", "b", "c"]);
        let reads = RankList { step: "read32".to_owned(), op: OpClass::Read, ..found.lists[0].clone() };
        found.lists.insert(0, reads);
        found.overall = Some(vec![place(1, Some(1), 1.0), place(0, Some(1), 1.1), place(2, Some(3), 9.0)]);
        let graded = |disk, report: &qd1_model::Report| {
            let of = |verdict: &qd1_model::Verdict| ClassGrade { verdict: verdict.clone(), alike: 2, runs: 3 };
            GradedDisk { disk, classes: report.verdicts.iter().map(of).collect() }
        };
        found.graded = vec![graded(1, &sample::fast_nvme()), graded(0, &sample::slow_vps())];
        let page = ranking_html(&found, None, &[]);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}: {page}"));
        assert!(at("Verdicts by class of workload") < at("commit1: p99 of commits"));
        assert!(at("commit1: p99 of commits") < at("read32: p99 of reads"));
        assert!(at("read32: p99 of reads") < at("Over all kinds of operation"));
        let fails =
            "<strong class=\"bad\">FAIL</strong> <span>wal sync p99 12.0\u{a0}ms</span> <span>2 of 3 runs</span>";
        assert!(page.contains(fails), "{page}");
        assert!(
            at("<th scope=\"row\">b</th><td class=\"tile good\">")
                < at("<th scope=\"row\">a</th><td class=\"tile bad\">")
        );
    }

    #[test]
    fn names_from_strangers_are_text() {
        let hostile = "</table><script>alert(1)</script>\u{202e}\u{7}\"";
        let page = ranking_html(&ranking(&[hostile, "b", "c"]), None, &[hostile.to_owned()]);
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\u{7}'));
        assert!(page.contains("&#60;/table&#62;") || page.contains("&lt;/table&gt;"));
    }
}
