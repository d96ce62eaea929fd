//! Grades of disks by classes: in each cell a word says the same as the colour.

use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use super::{Look, QUIET, text};
use crate::page::{shorten, wrap};
use crate::plot::chart::{Chart, Matrix};

const RIGHT: f64 = 18.0;
const TOP: f64 = 74.0;
/// Room for the names of runs, at least and as a share of the width at most.
const LEFT_MIN: f64 = 84.0;
const LEFT_SHARE: f64 = 0.3;
/// Heights of a row.
const ROW: std::ops::RangeInclusive<f64> = 52.0..=60.0;
/// About how wide a letter is, of a name, of a bold word, and of a figure.
const LETTER: f64 = 7.2;
const BOLD_LETTER: f64 = 7.6;
const SMALL_LETTER: f64 = 5.7;
/// Lines of a class's name above its column.
const TITLE_LINES: usize = 3;

/// Light enough for dark letters, and distinct for people who cannot tell red from green: open grades are the lightest,
/// failed ones the darkest.
const fn fill(color: &str) -> Color {
    match color.as_bytes() {
        b"good" => Color::Rgb(0xb5, 0xe3, 0xc8),
        b"middling" => Color::Rgb(0xf8, 0xdc, 0x8c),
        b"bad" => Color::Rgb(0xe0, 0x8a, 0x7d),
        _ => Color::Rgb(0xec, 0xee, 0xf0),
    }
}

pub(super) fn draw(scene: &mut Scene, matrix: &Matrix) {
    let longest = matrix.rows.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    let left = (16.0 + LETTER * longest).clamp(LEFT_MIN, LEFT_MIN.max(LEFT_SHARE * scene.width));
    let width = (scene.width - left - RIGHT) / matrix.columns.len().max(1) as f64;
    let rows = matrix.rows.len().max(1) as f64;
    let height = ((scene.height - TOP - 10.0) / rows).clamp(*ROW.start(), *ROW.end());
    scene.height = TOP + rows * height + 10.0;
    let letters = |size: f64| ((width - 8.0) / size).max(5.0) as usize;
    let centred = |size: u32, is_bold: bool| Look { size, is_bold, anchor: TextAnchor::Middle, ..Look::default() };
    for (column, name) in matrix.columns.iter().enumerate() {
        let lines = wrap(name, letters(LETTER));
        let x = left + (column as f64 + 0.5) * width;
        let lines = &lines[..lines.len().min(TITLE_LINES)];
        for (at, line) in lines.iter().enumerate() {
            let y = TOP - 8.0 - 13.0 * (lines.len() - 1 - at) as f64;
            scene.elements.push(text((x, y), line, centred(11, false)));
        }
    }
    for (row, (name, cells)) in matrix.rows.iter().zip(&matrix.cells).enumerate() {
        let y = TOP + row as f64 * height;
        let name = shorten(name, ((left - 12.0) / LETTER).max(5.0) as usize);
        let look = Look { anchor: TextAnchor::End, ..Look::default() };
        scene.elements.push(text((left - 8.0, y + 0.5 * height + 4.0), &name, look));
        for (column, cell) in cells.iter().enumerate() {
            let x = left + column as f64 * width;
            scene.elements.push(Primitive::Rect {
                x: x + 1.0,
                y: y + 1.0,
                width: (width - 2.0).max(1.0),
                height: height - 2.0,
                fill: cell.as_ref().map_or(QUIET, |cell| fill(cell.color)),
                stroke: None,
                stroke_width: None,
                opacity: None,
            });
            let middle = (x + 0.5 * width, y + 0.5 * height);
            match cell {
                None => scene.elements.push(text((middle.0, middle.1 + 4.0), "-", centred(12, false))),
                Some(graded) => {
                    let fits = letters(SMALL_LETTER);
                    let whole = graded.figure();
                    let lines =
                        if whole.chars().count() <= fits { vec![&whole] } else { vec![&graded.of, &graded.value] };
                    let top = middle.1 - 7.0 * (lines.len() as f64 - 1.0) - 2.0;
                    let word = shorten(&graded.word, letters(BOLD_LETTER));
                    scene.elements.push(text((middle.0, top), &word, centred(12, true)));
                    for (at, line) in lines.into_iter().enumerate() {
                        let place = (middle.0, top + 14.0 + 13.0 * at as f64);
                        scene.elements.push(text(place, &shorten(line, fits), centred(10, false)));
                    }
                }
            }
        }
    }
}

/// Returns the same as text, at most this many columns wide: a block for as many runs as fit side by side.
pub(super) fn letters(chart: &Chart, matrix: &Matrix, columns: usize) -> String {
    const GAP: usize = 2;
    let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let label = wide(&mut matrix.columns.iter().map(|name| name.chars().count())).min(columns / 3).max(8);
    let cell = |row: usize, column: usize| match &matrix.cells[row][column] {
        // The first of several words: the figure shows how far off it may be.
        Some(graded) => format!("{} {}", graded.word.split(' ').next().unwrap_or_default(), graded.value),
        None => "-".to_owned(),
    };
    let longest = (0..matrix.rows.len()).flat_map(|row| (0..matrix.columns.len()).map(move |column| (row, column)));
    let longest = wide(&mut longest.map(|(row, column)| cell(row, column).chars().count()));
    let names = wide(&mut matrix.rows.iter().map(|name| name.chars().count())).min(24);
    let width = longest.max(names).clamp(8, columns.saturating_sub(label + GAP).max(8));
    let each = ((columns.saturating_sub(label)) / (width + GAP)).max(1);
    let line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|text| format!("{:GAP$}{:width$}", "", shorten(&text, width))).collect();
        format!("{:label$}{cells}", shorten(first, label)).trim_end().to_owned() + "\n"
    };
    let mut shown = format!("{}\n", chart.title);
    let rows: Vec<usize> = (0..matrix.rows.len()).collect();
    for block in rows.chunks(each) {
        shown.push('\n');
        shown += &line("", &mut block.iter().map(|row| matrix.rows[*row].clone()));
        for (column, name) in matrix.columns.iter().enumerate() {
            shown += &line(name, &mut block.iter().map(|row| cell(*row, column)));
        }
    }
    shown + &format!("\n{}\n", shorten(&chart.made, columns))
}
