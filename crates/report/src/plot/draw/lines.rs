//! Lines on two axes, with their bands, over the cells of a heat map where there is one, and their legend.

use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};
use qd1_model::order::Order as _;

use super::axis::Scale;
use super::{ALERT, COLORS, INK, Look, QUIET, SHADES, line, shade, text};
use crate::plot::chart::{Band, Bound, Chart, Heat, Mark, Series};

const LEFT: f64 = 84.0;
const RIGHT: f64 = 32.0;
const TOP: f64 = 38.0;
/// Room below the axis for its numbers and its label.
const BELOW: f64 = 42.0;
/// A line of the legend, and about how wide a letter is.
const LEGEND_LINE: f64 = 18.0;
const LETTER: f64 = 7.2;

/// Lines over a heat map have to stand out from all its shades.
const OVER: [Color; 3] = [ALERT, Color::Rgb(0x8a, 0x5a, 0x00), Color::Rgb(0xe0, 0x21, 0x8a)];

/// For when there are too few colours, and for the runs of a step.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

/// A line with its look.
struct Line<'a> {
    series: &'a Series,
    name: String,
    color: Color,
    dash: &'static str,
    width: f64,
}

/// Most marks whose meaning is written next to them.
const EXPLAINED_MAX: usize = 6;

/// Height of a bound's name, and about how wide its letters are.
const NAME_LINE: f64 = 11.0;
const NAME_LETTER: f64 = 5.6;
/// For the bound within which a class passes.
const PASS: Color = Color::Rgb(0x0a, 0x6b, 0x3d);

/// The area and its axes.
struct Area {
    x: Scale,
    y: Scale,
    right: f64,
    bottom: f64,
}

pub(super) fn draw(scene: &mut Scene, chart: &Chart, series: &[Series], heat: Option<&Heat>) {
    let lines = looks(chart, series, heat.is_some());
    let legend = legend(&lines, scene.width);
    let bottom = scene.height - BELOW - legend.last().map_or(0.0, |(_, y)| y + LEGEND_LINE);
    let area = area(chart, &lines, heat, scene.width - RIGHT, bottom.max(TOP + 40.0));
    grid(scene, &area);
    scene.elements.push(Primitive::ClipStart {
        x: LEFT,
        y: TOP,
        width: area.right - LEFT,
        height: area.bottom - TOP,
        id: "area".to_owned(),
    });
    if let Some(heat) = heat {
        scene.elements.push(cells(heat, &area));
    }
    for line in &lines {
        scene.elements.extend(line.series.band.as_ref().map(|band| shaded(band, &line.color, &area)));
    }
    for line in &lines {
        scene.elements.extend(strokes(line, &area));
        scene.elements.extend(points(line, &area));
    }
    scene.elements.extend(chart.time.iter().flat_map(|time| &time.marks).map(|mark| marked(mark, &area)));
    scene.elements.extend(chart.bounds.iter().filter_map(|bound| bounded(bound, &area)));
    scene.elements.push(Primitive::ClipEnd);
    scene.elements.extend(names_of_bounds(&chart.bounds, &area));
    if heat.is_none() {
        scene.elements.extend(chart.time.iter().flat_map(|time| explained(&time.marks, &area)));
    }
    for (line, (x, y)) in lines.iter().zip(legend) {
        let y = area.bottom + BELOW + y + 8.0;
        scene.elements.push(stroke(vec![(x, y - 4.0), (x + 22.0, y - 4.0)], line, 3.0));
        scene.elements.push(text((x + 28.0, y), &line.name, Look::default()));
    }
}

fn looks<'a>(chart: &Chart, series: &'a [Series], is_over: bool) -> Vec<Line<'a>> {
    let look = |(at, series): (usize, &'a Series)| Line {
        series,
        name: if series.name.is_empty() { chart.y.label.to_owned() } else { series.name.clone() },
        color: match series.look {
            _ if is_over => OVER[at % OVER.len()].clone(),
            Some((color, _)) => COLORS[color % COLORS.len()].clone(),
            None => COLORS[at % COLORS.len()].clone(),
        },
        dash: DASHES[series.look.map_or(at / COLORS.len(), |(_, dash)| dash) % DASHES.len()],
        width: if is_over { 1.2 } else { 1.8 },
    };
    series.iter().filter(|series| !series.is_hidden).enumerate().map(look).collect()
}

/// Where each name of the legend begins, from its top left.
fn legend(lines: &[Line<'_>], width: f64) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (LEFT, 0.0);
    let place = |line: &Line<'_>| {
        let wide = 44.0 + LETTER * line.name.chars().count() as f64;
        if x + wide > width && x > LEFT {
            (x, y) = (LEFT, y + LEGEND_LINE);
        }
        let place = (x, y);
        x += wide;
        place
    };
    lines.iter().map(place).collect()
}

fn area(chart: &Chart, lines: &[Line<'_>], heat: Option<&Heat>, right: f64, bottom: f64) -> Area {
    let bands = || lines.iter().filter_map(|line| line.series.band.as_ref());
    let xs = lines.iter().flat_map(|line| line.series.x.iter().copied().flatten());
    let columns = heat.into_iter().flat_map(|heat| heat.columns.iter().flat_map(|(begin, end)| [*begin, *end]));
    let ys = lines.iter().flat_map(|line| line.series.y.iter().copied().flatten());
    let limits = bands().flat_map(|band| band.low.iter().chain(&band.high).copied().flatten());
    let edges = heat.into_iter().flat_map(|heat| heat.edges.iter().map(|edge| *edge as f64));
    let bounds = chart.bounds.iter().map(|bound| bound.y);
    let ends = chart.bounds.iter().filter_map(|bound| Some(bound.x?.1));
    Area {
        x: Scale::fit(chart.x, xs.chain(columns).chain(ends), LEFT, right),
        y: Scale::fit(chart.y, ys.chain(limits).chain(edges).chain(bounds), bottom, TOP),
        right,
        bottom,
    }
}

fn grid(scene: &mut Scene, area: &Area) {
    let middle = || Look { anchor: TextAnchor::Middle, ..Look::default() };
    for value in area.x.ticks(8) {
        let x = area.x.place(value);
        scene.elements.push(line((x, TOP), (x, area.bottom), QUIET, ""));
        scene.elements.push(text((x, area.bottom + 16.0), &area.x.format(value), middle()));
    }
    for value in area.y.ticks(6) {
        let y = area.y.place(value);
        scene.elements.push(line((LEFT, y), (area.right, y), QUIET, ""));
        let look = Look { anchor: TextAnchor::End, ..Look::default() };
        scene.elements.push(text((LEFT - 6.0, y + 4.0), &area.y.format(value), look));
    }
    scene.elements.push(line((LEFT, area.bottom), (area.right, area.bottom), INK, ""));
    scene.elements.push(line((LEFT, TOP), (LEFT, area.bottom), INK, ""));
    scene.elements.push(text((0.5 * (LEFT + area.right), area.bottom + 33.0), area.x.axis.label, middle()));
    let look = Look { rotate: Some(-90.0), ..middle() };
    scene.elements.push(text((14.0, 0.5 * (TOP + area.bottom)), area.y.axis.label, look));
}

fn cells(heat: &Heat, area: &Area) -> Primitive {
    let counts = heat.cells.iter().flat_map(|cells| cells.chunks_exact(2).map(|cell| cell[1]));
    let most = f64::from(counts.max().unwrap_or(1)).ln().max(1e-9);
    let (mut x, mut y, mut w, mut h, mut fills) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((begin, end), cells) in heat.columns.iter().zip(&heat.cells) {
        let (left, right) = (area.x.place(*begin), area.x.place(*end));
        for cell in cells.chunks_exact(2) {
            let row = cell[0] as usize;
            let Some((low, high)) = heat.edges.get(row).zip(heat.edges.get(row + 1)) else { continue };
            let (top, bottom) = (area.y.place(*high as f64), area.y.place((*low).max(1) as f64));
            x.push(left);
            y.push(top);
            w.push((right - left).max(0.7));
            h.push((bottom - top).max(0.7));
            fills.push(SHADES[shade(f64::from(cell[1].max(1)).ln() / most)].clone());
        }
    }
    Primitive::RectBatch { x, y, w, h, fills }
}

fn shaded(band: &Band, color: &Color, area: &Area) -> Primitive {
    let point = |x: &Option<f64>, y: &Option<f64>| Some((area.x.place((*x)?), area.y.place((*y)?)));
    let there = band.x.iter().zip(&band.high).filter_map(|(x, y)| point(x, y));
    let back = band.x.iter().zip(&band.low).filter_map(|(x, y)| point(x, y)).collect::<Vec<_>>();
    let outline: Vec<String> = there.chain(back.into_iter().rev()).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    Primitive::Path(Box::new(PathData {
        d: format!("M{}Z", outline.join(" L")),
        fill: Some(color.clone()),
        stroke: Color::None,
        stroke_width: 0.0,
        opacity: Some(0.18),
        stroke_dasharray: None,
    }))
}

/// The places of a line that are points: all of them, or those without a neighbour, which would not be seen.
fn points(line: &Line<'_>, area: &Area) -> Vec<Primitive> {
    let y = |at: Option<usize>| at.and_then(|at| line.series.y.get(at).copied().flatten());
    let is_alone = |at: usize| y(at.checked_sub(1)).is_none() && y(Some(at + 1)).is_none();
    let places = line.series.x.iter().zip(&line.series.y).enumerate();
    let places = places.filter(|(at, _)| line.series.has_points || is_alone(*at));
    let point = |(_, (x, y)): (usize, (&Option<f64>, &Option<f64>))| {
        Some(Primitive::Circle {
            cx: area.x.place((*x)?),
            cy: area.y.place((*y)?),
            r: 2.5,
            fill: line.color.clone(),
            fill_opacity: None,
            stroke: None,
            stroke_width: None,
        })
    };
    places.filter_map(point).collect()
}

/// A line in as many pieces as it has gaps.
fn strokes(line: &Line<'_>, area: &Area) -> Vec<Primitive> {
    let mut pieces: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (x, y) in line.series.x.iter().zip(&line.series.y) {
        match (x, y) {
            (Some(x), Some(y)) => {
                let point = (area.x.place(*x), area.y.place(*y));
                pieces.last_mut().expect("one is always open").push(point);
            }
            _ => pieces.push(Vec::new()),
        }
    }
    // A point alone has no length, and would not be seen.
    let stretched = |piece: Vec<(f64, f64)>| match piece.as_slice() {
        [(x, y)] => vec![(x - 1.0, *y), (x + 1.0, *y)],
        _ => piece,
    };
    pieces
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .map(|piece| stroke(stretched(piece), line, line.width))
        .collect()
}

fn stroke(points: Vec<(f64, f64)>, line: &Line<'_>, stroke_width: f64) -> Primitive {
    let stroke_dasharray = (!line.dash.is_empty()).then(|| line.dash.to_owned());
    Primitive::PolyLine { points, stroke: line.color.clone(), stroke_width, stroke_dasharray }
}

/// What the marks of lines mean, one below the other at the top, if there are few.
fn explained(marks: &[Mark], area: &Area) -> Vec<Primitive> {
    if marks.len() > EXPLAINED_MAX {
        return Vec::new();
    }
    let explain = |(at, mark): (usize, &Mark)| {
        let x = area.x.place(mark.x);
        let is_left = x - LEFT > area.right - x;
        let anchor = if is_left { TextAnchor::End } else { TextAnchor::Start };
        let x = if is_left { x - 4.0 } else { x + 4.0 };
        text(
            (x, TOP + 13.0 * (1.0 + at as f64)),
            &mark.text,
            Look { size: 11, anchor, color: ALERT, ..Look::default() },
        )
    };
    marks.iter().filter(|mark| mark.y.is_none()).enumerate().map(explain).collect()
}

/// The line of a bound: dashed across the whole chart, or solid around its percentile.
fn bounded(bound: &Bound, area: &Area) -> Option<Primitive> {
    let y = area.y.place(bound.y);
    let (left, right) = bound.x.map_or((LEFT, area.right), |(from, to)| (area.x.place(from), area.x.place(to)));
    let dash = if bound.x.is_some() { None } else { Some("8 4".to_owned()) };
    y.is_finite().then(|| Primitive::Line {
        x1: left,
        y1: y,
        x2: right,
        y2: y,
        stroke: color_of(bound),
        stroke_width: if bound.x.is_some() { 3.0 } else { 1.4 },
        stroke_dasharray: dash,
    })
}

fn color_of(bound: &Bound) -> Color {
    if bound.is_fail { ALERT } else { PASS }
}

/// What each bound is: before its stretch, or above the right end of its line, and clear of the names before it.
fn names_of_bounds(bounds: &[Bound], area: &Area) -> Vec<Primitive> {
    let wide = |text: &str| NAME_LETTER * text.chars().count() as f64;
    let mut taken: Vec<f64> = Vec::new();
    let mut sorted: Vec<&Bound> = bounds.iter().collect();
    sorted.order_by(|a, b| b.y.total_cmp(&a.y));
    let mut named = |bound: &Bound| {
        let line = area.y.place(bound.y);
        let start = bound.x.map(|(from, _)| area.x.place(from) - 5.0);
        // The source of the bound is left out if there is no room for it.
        let short = bound.text.split(" (").next().unwrap_or_default();
        let before = [bound.text.as_str(), short]
            .into_iter()
            .find_map(|text| Some((start.filter(|start| start - wide(text) > LEFT)?, text)));
        let (x, mut y, text) = match before {
            Some((start, text)) => (start, line + 4.0, text),
            None => {
                (area.right - 3.0, line - 4.0, if wide(&bound.text) < area.right - LEFT { &*bound.text } else { short })
            }
        };
        while taken.iter().any(|other| (other - y).abs() < NAME_LINE) {
            y += NAME_LINE;
        }
        taken.push(y);
        let look = Look { size: 10, anchor: TextAnchor::End, color: color_of(bound), ..Look::default() };
        (y < area.bottom + NAME_LINE).then(|| super::text((x, y), text, look))
    };
    sorted.into_iter().filter_map(&mut named).collect()
}

fn marked(mark: &Mark, area: &Area) -> Primitive {
    let x = area.x.place(mark.x);
    match mark.y {
        None => line((x, TOP), (x, area.bottom), ALERT, "5 4"),
        Some(y) => Primitive::Circle {
            cx: x,
            cy: area.y.place(y),
            r: 6.0,
            fill: Color::None,
            fill_opacity: None,
            stroke: Some(ALERT),
            stroke_width: Some(1.0),
        },
    }
}
