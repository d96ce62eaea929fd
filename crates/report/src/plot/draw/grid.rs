//! A figure for each pair of two names, as a table of coloured cells.

use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use super::{INK, Look, QUIET, SHADES, axis, shade, text};
use crate::plot::chart::{AxisUnit, Chart, Grid};

const LEFT: f64 = 84.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 62.0;
const BELOW: f64 = 40.0;
/// From this shade on letters are white.
const DARK: usize = 4;

pub(super) fn draw(scene: &mut Scene, chart: &Chart, grid: &Grid) {
    let values = || grid.values.iter().flatten().copied().flatten().filter(|value| *value > 0.0);
    let (low, high) =
        values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let span = (high.ln() - low.ln()).max(1e-9);
    let width = (scene.width - LEFT - RIGHT) / grid.columns.len().max(1) as f64;
    let height = ((scene.height - TOP - BELOW) / grid.rows.len().max(1) as f64).min(60.0);
    let centred = |color: Color| Look { anchor: TextAnchor::Middle, color, ..Look::default() };
    scene.elements.push(text(
        (LEFT, 40.0),
        &format!("{}: across; {}: down", chart.x.label, chart.y.label),
        Look::default(),
    ));
    for (column, name) in grid.columns.iter().enumerate() {
        scene.elements.push(text((LEFT + (column as f64 + 0.5) * width, TOP - 6.0), name, centred(INK)));
    }
    for (row, name) in grid.rows.iter().enumerate() {
        let y = TOP + row as f64 * height;
        let look = Look { anchor: TextAnchor::End, ..Look::default() };
        scene.elements.push(text((LEFT - 8.0, y + 0.5 * height + 4.0), name, look));
        for (column, value) in grid.values[row].iter().enumerate() {
            let shade = value.map(|value| shade((value.max(low).ln() - low.ln()) / span));
            let is_marked = grid.marked.contains(&(row, column));
            let x = LEFT + column as f64 * width;
            scene.elements.push(Primitive::Rect {
                x: x + 1.0,
                y: y + 1.0,
                width: width - 2.0,
                height: height - 2.0,
                fill: shade.map_or(QUIET, |shade| SHADES[shade].clone()),
                stroke: is_marked.then_some(INK),
                stroke_width: is_marked.then_some(2.5),
                opacity: None,
            });
            let color = if shade.is_some_and(|shade| shade >= DARK) { Color::Rgb(255, 255, 255) } else { INK };
            let shown =
                value.map_or_else(|| "-".to_owned(), |value| axis::format(grid.unit.unwrap_or(AxisUnit::Count), value));
            scene.elements.push(text((x + 0.5 * width, y + 0.5 * height + 4.0), &shown, centred(color)));
        }
    }
    let below = TOP + grid.rows.len() as f64 * height + 20.0;
    scene.height = scene.height.min(below + 14.0);
    if !grid.mark.is_empty() {
        scene.elements.push(text((LEFT, below), &format!("Framed: {}.", grid.mark), Look::default()));
    }
}
