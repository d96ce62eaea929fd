//! A picture as pixels: tiny-skia fills and strokes, and the letters are outlines of a font that is in the binary.
//!
//! Only the primitives that the charts use are drawn.

use std::sync::LazyLock;

use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use tiny_skia::{
    FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::packed::packed;

/// DejaVu Sans 2.37, of which only Latin, Greek, arrows and a few signs are left. Made by `fontTools.subset` with
/// `--unicodes=U+0020-007E,U+00A0-017F,U+0391-03C9,U+2010-2027,U+2030,U+20AC,U+2190-2193,U+2264,U+2265 --no-hinting --notdef-outline`.
static FONT: LazyLock<Vec<u8>> = LazyLock::new(|| packed!("DejaVuSans.ttf"));
/// A bold letter is its outline and a line around it, this part of its height wide.
const BOLD: f32 = 0.035;

/// Writes a scene as a PNG, `scale` pixels for each unit of length.
///
/// # Errors
/// When it has no size, or more pixels than fit into memory.
pub(super) fn png(scene: &Scene, scale: f32) -> Result<Vec<u8>, String> {
    let [width, height] = [scene.width, scene.height].map(|length| (length as f32 * scale).round() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("a picture of this size is not possible; choose another one")?;
    pixels.fill(tiny_skia::Color::WHITE);
    let face = Face::parse(&FONT, 0).map_err(|error| format!("the font is damaged: {error}"))?;
    let mut canvas = Canvas { pixels, to_pixels: Transform::from_scale(scale, scale), clip: None, face };
    scene.elements.iter().for_each(|primitive| canvas.draw(primitive));
    canvas.pixels.encode_png().map_err(|error| error.to_string())
}

struct Canvas<'a> {
    pixels: Pixmap,
    to_pixels: Transform,
    clip: Option<Mask>,
    face: Face<'a>,
}

impl Canvas<'_> {
    fn draw(&mut self, primitive: &Primitive) {
        match primitive {
            Primitive::Line { x1, y1, x2, y2, stroke, stroke_width, stroke_dasharray } => {
                self.polyline(&[(*x1, *y1), (*x2, *y2)], stroke, *stroke_width, stroke_dasharray.as_deref());
            }
            Primitive::PolyLine { points, stroke, stroke_width, stroke_dasharray } => {
                self.polyline(points, stroke, *stroke_width, stroke_dasharray.as_deref());
            }
            Primitive::Path(path) => {
                let fill = path.fill.clone().unwrap_or(Color::None);
                self.fill(outline(&points_of(&path.d), true), &fill, path.opacity.unwrap_or(1.0));
            }
            Primitive::Circle { cx, cy, r, fill, fill_opacity, stroke, stroke_width } => {
                let path = PathBuilder::from_circle(*cx as f32, *cy as f32, *r as f32);
                self.fill(path.clone(), fill, fill_opacity.unwrap_or(1.0));
                if let Some(color) = stroke {
                    self.stroke(path, color, stroke_width.unwrap_or(1.0), None);
                }
            }
            Primitive::Rect { x, y, width, height, fill, stroke, stroke_width, opacity } => {
                let path = rectangle(*x, *y, *width, *height);
                self.fill(path.clone(), fill, opacity.unwrap_or(1.0));
                if let Some(color) = stroke {
                    self.stroke(path, color, stroke_width.unwrap_or(1.0), None);
                }
            }
            Primitive::RectBatch { x, y, w, h, fills } => {
                for ((((x, y), w), h), fill) in x.iter().zip(y).zip(w).zip(h).zip(fills) {
                    self.fill(rectangle(*x, *y, *w, *h), fill, 1.0);
                }
            }
            Primitive::ClipStart { x, y, width, height, .. } => {
                let mut mask = Mask::new(self.pixels.width(), self.pixels.height());
                if let (Some(mask), Some(path)) = (&mut mask, rectangle(*x, *y, *width, *height)) {
                    mask.fill_path(&path, FillRule::Winding, true, self.to_pixels);
                }
                self.clip = mask;
            }
            Primitive::ClipEnd => self.clip = None,
            Primitive::Text { x, y, content, size, anchor, rotate, bold, color } => {
                let color = color.clone().unwrap_or(Color::Rgb(0, 0, 0));
                let height = *size as f32;
                let path = written(&self.face, content, height, anchor).and_then(|path| {
                    let turn = Transform::from_rotate(rotate.unwrap_or(0.0) as f32);
                    path.transform(turn.post_translate(*x as f32, *y as f32))
                });
                if *bold {
                    self.stroke(path.clone(), &color, f64::from(BOLD * height), None);
                }
                self.fill(path, &color, 1.0);
            }
            _ => debug_assert!(false, "a primitive that no chart uses"),
        }
    }

    fn polyline(&mut self, points: &[(f64, f64)], color: &Color, width: f64, dash: Option<&str>) {
        self.stroke(outline(points, false), color, width, dash);
    }

    fn fill(&mut self, path: Option<Path>, color: &Color, opacity: f64) {
        if let (Some(path), Some(paint)) = (path, paint(color, opacity)) {
            self.pixels.fill_path(&path, &paint, FillRule::Winding, self.to_pixels, self.clip.as_ref());
        }
    }

    fn stroke(&mut self, path: Option<Path>, color: &Color, width: f64, dash: Option<&str>) {
        let lengths = dash.map(|dash| dash.split(' ').filter_map(|length| length.parse().ok()).collect());
        let stroke = Stroke {
            width: width as f32,
            line_cap: LineCap::Butt,
            line_join: LineJoin::Round,
            dash: lengths.and_then(|lengths| StrokeDash::new(lengths, 0.0)),
            ..Stroke::default()
        };
        if let (Some(path), Some(paint)) = (path, paint(color, 1.0)) {
            self.pixels.stroke_path(&path, &paint, &stroke, self.to_pixels, self.clip.as_ref());
        }
    }
}

fn paint(color: &Color, opacity: f64) -> Option<Paint<'static>> {
    let Color::Rgb(red, green, blue) = color else { return None };
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(*red, *green, *blue, (255.0 * opacity.clamp(0.0, 1.0)).round() as u8);
    Some(paint)
}

fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Option<Path> {
    Rect::from_xywh(x as f32, y as f32, width as f32, height as f32).map(PathBuilder::from_rect)
}

fn outline(points: &[(f64, f64)], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in points.iter().enumerate() {
        if at == 0 {
            path.move_to(*x as f32, *y as f32);
        } else {
            path.line_to(*x as f32, *y as f32);
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

/// The corners of a path as `lines.rs` writes it: `M1 2 L3 4Z`.
fn points_of(path: &str) -> Vec<(f64, f64)> {
    let corners = path.trim_start_matches('M').trim_end_matches('Z').split(" L");
    let corner = |corner: &str| {
        let (x, y) = corner.split_once(' ')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    corners.filter_map(corner).collect()
}

/// The outlines of a line of text that begins, has its middle, or ends at the origin.
fn written(face: &Face<'_>, text: &str, height: f32, anchor: &TextAnchor) -> Option<Path> {
    let scale = height / f32::from(face.units_per_em());
    // A letter that the font does not have is its box.
    let glyph = |letter| face.glyph_index(letter).unwrap_or(GlyphId(0));
    let advance = |glyph| scale * f32::from(face.glyph_hor_advance(glyph).unwrap_or(0));
    let width: f32 = text.chars().map(|letter| advance(glyph(letter))).sum();
    let from = match anchor {
        TextAnchor::Start => 0.0,
        TextAnchor::Middle => -width / 2.0,
        TextAnchor::End => -width,
    };
    let mut pen = Pen { path: PathBuilder::new(), x: from, scale };
    for glyph in text.chars().map(glyph) {
        face.outline_glyph(glyph, &mut pen);
        pen.x += advance(glyph);
    }
    pen.path.finish()
}

/// Writes the outlines of letters, which rise, where pictures fall.
struct Pen {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + self.scale * x, -self.scale * y)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::draw::Size;

    /// The colour of a place of a scene that is drawn twice as large.
    fn colors(scene: &Scene, places: &[(u32, u32)]) -> Vec<(u8, u8, u8)> {
        let pixels = Pixmap::decode_png(&png(scene, 2.0).unwrap()).unwrap();
        let color = |(x, y): &(u32, u32)| {
            let color = pixels.pixel(2 * x, 2 * y).unwrap().demultiply();
            (color.red(), color.green(), color.blue())
        };
        places.iter().map(color).collect()
    }

    #[test]
    fn shapes_have_their_place_and_colour_and_stay_within_the_area() {
        let mut scene = Scene::new(100.0, 60.0);
        let red = Color::Rgb(255, 0, 0);
        scene.elements.push(Primitive::ClipStart { x: 0.0, y: 0.0, width: 50.0, height: 60.0, id: "a".to_owned() });
        scene.elements.push(super::super::line((0.0, 30.0), (100.0, 30.0), red.clone(), ""));
        scene.elements.push(Primitive::ClipEnd);
        scene.elements.push(Primitive::RectBatch {
            x: vec![60.0],
            y: vec![10.0],
            w: vec![10.0],
            h: vec![10.0],
            fills: vec![Color::Rgb(0, 0, 255)],
        });
        let found = colors(&scene, &[(20, 30), (80, 30), (65, 15), (55, 15)]);
        assert_eq!(found, [(255, 0, 0), (255, 255, 255), (0, 0, 255), (255, 255, 255)]);
    }

    #[test]
    fn letters_have_the_fonts_widths_and_end_where_they_should() {
        let face = Face::parse(&FONT, 0).unwrap();
        let bounds = |anchor| written(&face, "10 ms", 12.0, &anchor).unwrap().bounds();
        let start = bounds(TextAnchor::Start);
        assert!(start.left() > 0.0 && (25.0..45.0).contains(&start.width()), "{start:?}");
        assert!(start.top() < -7.0 && start.bottom() < 1.0, "above the line: {start:?}");
        assert!((bounds(TextAnchor::End).right() - 0.0).abs() < 2.0);
        assert!(written(&face, "\u{4e2d}", 12.0, &TextAnchor::Start).is_some(), "a box for what it lacks");
    }

    #[test]
    fn a_picture_without_a_size_is_an_error() {
        let size = Size { width: 0.0, height: 10.0 };
        assert!(png(&Scene::new(size.width, size.height), 2.0).is_err());
    }
}
