//! Charts as pictures: complete, within their size, and safe whatever their names are.

use super::*;
use crate::plot::chart::{Axis, AxisUnit, Band, Bound, Graded, Grid, Heat, Mark, Matrix, Series, Time};

const NINES: Axis = Axis { label: "share", unit: AxisUnit::Nines, is_log: false };
const LATENCY: Axis = Axis { label: "latency", unit: AxisUnit::Ns, is_log: true };
const SECONDS: Axis = Axis { label: "time", unit: AxisUnit::Seconds, is_log: false };
const NAMES: Axis = Axis { label: "names", unit: AxisUnit::Names, is_log: false };

fn chart(x: Axis, y: Axis, body: Body) -> Chart {
    Chart {
        id: "a".to_owned(),
        title: "a title".to_owned(),
        note: String::new(),
        x,
        y,
        body,
        time: None,
        bounds: Vec::new(),
        made: String::new(),
    }
}

fn all(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

fn lines(name: &str) -> Chart {
    let band = Band { x: all(&[0.3, 2.0]), low: all(&[8e4, 9e5]), high: all(&[2e5, 3e6]) };
    let first = Series {
        name: name.to_owned(),
        x: all(&[0.1, 1.0, 2.0, 3.0]),
        y: vec![Some(1e5), Some(2e5), None, Some(4e6)],
        band: Some(band),
        ..Series::default()
    };
    let hidden = Series { name: "never seen".to_owned(), is_hidden: true, ..first.clone() };
    chart(NINES, LATENCY, Body::Lines { series: vec![first, hidden] })
}

fn heat() -> Chart {
    let heat = Heat {
        columns: vec![(0.0, 1.0), (1.0, 2.0)],
        edges: vec![1000, 2000, 4000],
        cells: vec![vec![0, 5, 1, 1], vec![1, 7]],
    };
    let series =
        vec![Series { name: "p50".to_owned(), x: all(&[0.5, 1.5]), y: all(&[1500.0, 3000.0]), ..Series::default() }];
    let marks =
        vec![Mark { x: 1.0, y: None, text: String::new() }, Mark { x: 1.5, y: Some(3900.0), text: String::new() }];
    let time = Some(Time { marks, ..Time::default() });
    Chart { time, ..chart(SECONDS, LATENCY, Body::Heat { heat, series }) }
}

fn grid() -> Chart {
    let grid = Grid {
        columns: vec!["1".to_owned(), "8".to_owned()],
        rows: vec!["4k".to_owned(), "1M".to_owned()],
        values: vec![vec![Some(1e4), Some(5e4)], vec![None, Some(700.0)]],
        unit: Some(AxisUnit::PerSecond),
        marked: vec![(0, 1)],
        mark: "the knee".to_owned(),
    };
    chart(NAMES, NAMES, Body::Grid { grid })
}

fn svg(chart: &Chart) -> String {
    String::from_utf8(picture(chart, PictureFormat::Svg, Size::default()).unwrap()).unwrap()
}

/// Numbers after an attribute's name.
fn numbers<'a>(svg: &'a str, attribute: &'a str) -> impl Iterator<Item = f64> + 'a {
    svg.split(&format!(" {attribute}=\""))
        .skip(1)
        .filter_map(|rest| rest.split('"').next()?.parse().ok())
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn every_line_band_cell_and_mark_is_in_the_picture_and_inside_of_it() {
    let svg_of = |chart: &Chart| {
        let svg = svg(chart);
        assert!(
            svg.starts_with("<svg")
                && svg.trim_end().ends_with("</svg>")
                && !svg.contains("NaN")
                && !svg.contains("inf")
        );
        for x in numbers(&svg, "x").chain(numbers(&svg, "cx")) {
            assert!((0.0..=900.0).contains(&x), "{x}: {svg}");
        }
        svg
    };
    let svg = svg_of(&lines("qd1"));
    assert!(
        svg.contains(">qd1<") && !svg.contains("never seen") && svg.contains(">99.9 %<") && svg.contains("us<"),
        "{svg}"
    );
    assert!(svg.contains("opacity=\"0.18\""), "the band");
    let svg = svg_of(&heat());
    assert_eq!(svg.matches("<rect").count(), 1 + 3, "the ground and three cells: {svg}");
    assert_eq!(svg.matches("<circle").count(), 1);
    let svg = svg_of(&grid());
    assert!(
        svg.contains(">50k<") && svg.contains(">700<") && svg.contains(">-<") && svg.contains("Framed: the knee."),
        "{svg}"
    );
}

#[test]
fn a_png_is_twice_the_size_in_pixels() {
    let png = picture(&heat(), PictureFormat::Png, Size { width: 300.0, height: 200.0 }).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (600, 400));
}

#[test]
fn a_terminal_gets_letters_within_its_columns_and_ascii_where_it_has_no_more() {
    for columns in [40, 80, 120] {
        for (color, is_unicode) in [(false, false), (false, true), (true, true)] {
            for chart in [lines("a line of a rather long name"), heat(), grid()] {
                let format = PictureFormat::Terminal { columns, color, is_unicode };
                let text = String::from_utf8(picture(&chart, format, Size::default()).unwrap()).unwrap();
                assert!(text.contains("a title") || columns == 40, "{text}");
                assert_eq!(text.contains('\u{1b}'), color, "{text}");
                assert!(is_unicode || text.is_ascii(), "{text}");
                let too_wide = text.lines().find(|line| !color && line.chars().count() > columns);
                assert_eq!(too_wide, None, "{text}");
            }
        }
    }
}

/// A name ended the element that held it.
#[test]
fn names_are_text_in_an_svg() {
    let mut chart = lines("</text><script>alert(1)</script>\"&");
    chart.title = "<image href=x onload=alert(1)>".to_owned();
    let svg = svg(&chart);
    assert!(!svg.contains("<script") && !svg.contains("<image"), "{svg}");
    assert!(svg.contains("&lt;script&gt;") && svg.contains("&amp;"), "{svg}");
}

#[test]
fn nothing_to_show_is_an_empty_area() {
    let empty = chart(NINES, LATENCY, Body::Lines { series: Vec::new() });
    assert!(svg(&empty).contains(">latency<"));
    let empty = chart(NAMES, NAMES, Body::Grid { grid: Grid::default() });
    assert!(svg(&empty).contains("a title"));
}

#[test]
fn bounds_are_lines_with_their_names_and_widen_the_axis() {
    let fail = |x, text: &str| Bound { x, y: 5e7, text: text.to_owned(), is_fail: true };
    let around = Chart { bounds: vec![fail(Some((1.7, 2.3)), "p99: fail above 50 ms (etcd)")], ..lines("qd1") };
    let drawn = svg(&around);
    assert!(
        drawn.contains(">p99: fail above 50 ms (etcd)<") && drawn.contains(">50 ms<"),
        "the axis reaches it: {drawn}"
    );
    let across = Chart { bounds: vec![fail(None, "fail above 50 ms")], ..heat() };
    assert!(svg(&across).contains("stroke-dasharray=\"8 4\""), "{}", svg(&across));
}

#[test]
fn a_matrix_says_each_grade_as_a_word_in_every_form() {
    let graded = |word: &str, color| {
        Some(Graded { word: word.to_owned(), of: "wal sync p99".to_owned(), value: "34.6 ms".to_owned(), color })
    };
    let matrix = Matrix {
        columns: vec!["etcd / Kubernetes".to_owned(), "bulk".to_owned()],
        rows: (0..12).map(|at| format!("vps-{at}")).collect(),
        cells: (0..12).map(|_| vec![graded("FAIL", "bad"), None]).collect(),
    };
    let chart = Chart { made: "12 runs of check".to_owned(), ..chart(NAMES, NAMES, Body::Matrix { matrix }) };
    let drawn = svg(&chart);
    assert_eq!(drawn.matches(">FAIL<").count(), 12);
    assert_eq!(drawn.matches("wal sync p99 34.6 ms").count(), 12);
    assert!(drawn.contains(">vps-11<") && drawn.contains(">12 runs of check<"), "{drawn}");
    for columns in [40, 80] {
        let format = PictureFormat::Terminal { columns, color: false, is_unicode: false };
        let text = String::from_utf8(picture(&chart, format, Size::default()).unwrap()).unwrap();
        assert!(text.lines().all(|line| line.len() <= columns), "{text}");
        assert_eq!(text.matches("FAIL 34.6 ms").count(), 12, "{text}");
        assert!(text.contains("vps-11") && text.contains("12 runs of check"), "{text}");
    }
}

#[test]
fn a_picture_says_what_it_is_of_below_the_chart() {
    let made = "check of /srv on db-1, 2026-11-26 22:33, qd1 0.1.0";
    for chart in [lines("qd1"), heat(), grid()] {
        let chart = Chart { made: made.to_owned(), ..chart };
        let drawn = svg(&chart);
        assert!(drawn.contains(&format!(">{made}<")), "{drawn}");
    }
}
