//! A chart as a picture: SVG, PNG, or the letters of a terminal.
//!
//! The layout is decided here, since kuva has no axes of nines, gaps, bands or unequal columns; kuva writes the
//! primitives as SVG and text, `raster.rs` as pixels. In the browser `html/report.js` draws the same charts, which are
//! interactive there.

mod axis;
mod grid;
mod letters;
mod lines;
mod matrix;
mod raster;

use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use super::chart::{Body, Chart};
use crate::page::shorten;

/// How a picture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Lines that stay sharp at any size.
    Svg,
    /// Pixels, two for each unit of length.
    Png,
    /// Letters.
    Terminal {
        /// Columns; there is a line for each four of them.
        columns: usize,
        /// Whether to use escape sequences for colour.
        color: bool,
        /// Whether to use Braille and box-drawing characters rather than only ASCII.
        is_unicode: bool,
    },
}

/// Width and height of a picture, in units in which text is 12 high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

impl Default for Size {
    fn default() -> Self {
        Self { width: 900.0, height: 420.0 }
    }
}

const INK: Color = Color::Rgb(0x22, 0x22, 0x22);
const QUIET: Color = Color::Rgb(0xdd, 0xdd, 0xdd);
/// For the line that only says where the picture is from.
const FAINT: Color = Color::Rgb(0x5b, 0x65, 0x70);
/// Height of that line, and about how wide its letters are.
const FOOT: f64 = 18.0;
const MADE_LETTER: f64 = 6.0;
const ALERT: Color = Color::Rgb(0xb3, 0x26, 0x1e);

/// Colours that stay apart without colour vision (after Okabe and Ito), each dark enough for a thin line on white.
const COLORS: [Color; 8] = [
    Color::Rgb(0x00, 0x72, 0xb2),
    Color::Rgb(0xd5, 0x5e, 0x00),
    Color::Rgb(0x00, 0x9e, 0x73),
    Color::Rgb(0xcc, 0x79, 0xa7),
    Color::Rgb(0xb8, 0x7d, 0x00),
    Color::Rgb(0x2b, 0x8c, 0xc4),
    Color::Rgb(0x8a, 0x6d, 0x3b),
    Color::Rgb(0x7f, 0x7f, 0x7f),
];

/// From low to high: viridis, which is just as clear in grey.
const SHADES: [Color; 10] = [
    Color::Rgb(253, 231, 37),
    Color::Rgb(181, 222, 43),
    Color::Rgb(110, 206, 88),
    Color::Rgb(53, 183, 121),
    Color::Rgb(31, 158, 137),
    Color::Rgb(38, 130, 142),
    Color::Rgb(49, 104, 142),
    Color::Rgb(62, 73, 137),
    Color::Rgb(72, 40, 120),
    Color::Rgb(68, 1, 84),
];

/// Writes a chart.
///
/// # Errors
/// When it cannot be written as pixels because of its size.
pub(crate) fn picture(chart: &Chart, format: PictureFormat, size: Size) -> Result<Vec<u8>, String> {
    match format {
        PictureFormat::Svg => Ok((SvgBackend::new().render_scene(&scene(chart, size)) + "\n").into_bytes()),
        PictureFormat::Png => raster::png(&scene(chart, size), 2.0),
        PictureFormat::Terminal { columns, color, is_unicode } => {
            Ok(letters::written(chart, columns, color, is_unicode).into_bytes())
        }
    }
}

fn scene(chart: &Chart, size: Size) -> Scene {
    // Below it is a line that says what it shows.
    let mut scene = Scene::new(size.width, (size.height - FOOT).max(FOOT));
    scene.font_family = Some("DejaVu Sans, Liberation Sans, sans-serif".to_owned());
    scene.elements.push(text((12.0, 22.0), &chart.title, Look { size: 15, is_bold: true, ..Look::default() }));
    match &chart.body {
        Body::Lines { series } => lines::draw(&mut scene, chart, series, None),
        Body::Heat { heat, series } => lines::draw(&mut scene, chart, series, Some(heat)),
        Body::Grid { grid } => grid::draw(&mut scene, chart, grid),
        Body::Matrix { matrix } => matrix::draw(&mut scene, matrix),
    }
    let made = shorten(&chart.made, ((size.width - 24.0) / MADE_LETTER).max(5.0) as usize);
    let look = Look { size: 10, color: FAINT, ..Look::default() };
    scene.elements.push(text((12.0, scene.height + FOOT - 7.0), &made, look));
    scene.height += FOOT;
    scene
}

/// How text looks.
struct Look {
    size: u32,
    is_bold: bool,
    anchor: TextAnchor,
    rotate: Option<f64>,
    color: Color,
}

impl Default for Look {
    fn default() -> Self {
        Self { size: 12, is_bold: false, anchor: TextAnchor::Start, rotate: None, color: INK }
    }
}

fn text((x, y): (f64, f64), content: &str, look: Look) -> Primitive {
    let Look { size, is_bold, anchor, rotate, color } = look;
    Primitive::Text { x, y, content: content.to_owned(), size, anchor, rotate, bold: is_bold, color: Some(color) }
}

fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: Color, dash: &str) -> Primitive {
    let stroke_dasharray = (!dash.is_empty()).then(|| dash.to_owned());
    Primitive::Line { x1, y1, x2, y2, stroke, stroke_width: 1.0, stroke_dasharray }
}

/// A shade for a share of the largest, 0..=1.
fn shade(share: f64) -> usize {
    ((SHADES.len() - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize
}

#[cfg(test)]
mod tests;
