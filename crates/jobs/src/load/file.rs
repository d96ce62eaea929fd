//! One file's positions, the sequential offsets that follow from them, and the zones of `zonemode=strided`.

use qd1_fio::FioJob;
use qd1_fio::types::ZoneMode;

use super::order::{Choice, Grid, Order};
use super::rng::Rng;
use super::{Extent, TRIM, WRITE};

/// A job's positions in one file, in bytes, one for each direction: in a mix, reads and writes each go through the
/// file, as in fio.
#[derive(Clone, Debug)]
pub(super) struct File {
    start: u64,
    end: u64,
    /// What positions are relative to: the start of the file, or of the zone.
    base: u64,
    /// Bytes from the base in which random offsets lie.
    span: u64,
    /// Where the last request of each direction ended.
    last: [u64; 3],
    last_start: [u64; 3],
    /// A trimmed block waits for its write.
    owes_write: bool,
    /// Whether it wrapped to its start since this was last queried.
    pub(super) wrapped: bool,
    order: Order,
}

impl File {
    pub(super) fn new(extent: &Extent, order: Order) -> Self {
        let end = extent.start.saturating_add(extent.length);
        Self {
            start: extent.start,
            end,
            base: extent.start,
            span: end - extent.start,
            last: [extent.start; 3],
            last_start: [extent.start; 3],
            owes_write: false,
            wrapped: false,
            order,
        }
    }

    /// Back to the start with nothing visited.
    pub(super) fn restart(&mut self, zone: Option<&Strided>, grid: &Grid, rng: &mut Rng) {
        self.base = self.start;
        self.owes_write = false;
        self.reset(zone, grid, rng);
    }

    /// Back to the base with nothing visited.
    fn reset(&mut self, zone: Option<&Strided>, grid: &Grid, rng: &mut Rng) {
        let rest = self.end - self.base;
        self.span = zone.map_or(rest, |zone| zone.range.min(rest));
        self.last = [self.base; 3];
        self.order.reset(grid, self.span, rng);
    }

    /// `trimwrite`: each trimmed block is written before the next is trimmed.
    pub(super) fn trim_or_write(&self) -> usize {
        if self.owes_write { WRITE } else { TRIM }
    }

    /// The block that was trimmed last, which is written next.
    pub(super) fn trimmed(&self) -> (u64, u32) {
        (self.last_start[TRIM], (self.last[TRIM] - self.last_start[TRIM]) as u32)
    }

    /// A request of this direction was drawn.
    #[inline]
    pub(super) fn went(&mut self, direction: usize, offset: u64, len: u32) {
        self.last[direction] = offset + u64::from(len);
        self.last_start[direction] = offset;
        // If trims are longer than writes, several writes follow one trim.
        self.owes_write = direction == TRIM || self.last_start[WRITE] != self.last_start[TRIM];
    }

    /// The block after the last one of this direction, `skip` bytes further on; `None` at the end. With `wrap` it
    /// continues at the start.
    ///
    /// With a skip the end is not always final: an offset so large that it is past the end even when counted from the
    /// start of the file, not of the extent, continues at the start, and one before the start continues the same
    /// distance before the end; a block that ends there, or does not fit, is the last. fio does the same, and its count
    /// of bytes then ends the round. (With `offset`, fio continues as far from there as the offset, which nobody can
    /// want.)
    #[inline]
    pub(super) fn sequential(
        &mut self,
        grid: &Grid,
        direction: usize,
        skip: i64,
        wrap: bool,
        rng: &mut Rng,
    ) -> Option<(u64, u32)> {
        if self.last[direction] >= self.end {
            if !wrap {
                return None;
            }
            self.last[direction] = self.base;
            self.wrapped = true;
        }
        let mut place = self.last[direction] - self.base;
        if skip != 0 && place != 0 {
            place = match place.checked_add_signed(skip) {
                Some(place) if place < self.end => place,
                _ if skip > 0 => 0,
                _ => (self.end - self.base).checked_add_signed(skip)?,
            };
        }
        let offset = self.base + place;
        Some((offset, grid.blocks[direction].draw(rng, self.end.saturating_sub(offset))?))
    }

    /// A random block; `None` when all have been visited. With `wrap`, all are then free again.
    #[inline]
    pub(super) fn random(
        &mut self,
        choice: &Choice,
        grid: &Grid,
        direction: usize,
        wrap: bool,
        rng: &mut Rng,
    ) -> Option<(u64, u32)> {
        let mut drawn = self.order.draw(choice, grid, direction, self.span, rng);
        if drawn.is_none() && wrap {
            self.wrapped = true;
            self.order.reset(grid, self.span, rng);
            drawn = self.order.draw(choice, grid, direction, self.span, rng);
        }
        drawn.map(|(place, len)| (self.base + place, len))
    }
}

/// `zonemode=strided`: `size` bytes of requests within `range` bytes, then on to the next range, `skip` bytes after it.
///
/// The bytes of all files and directions are counted together, and the file being accessed when the count is reached
/// moves on: several files move unevenly, as in fio.
#[derive(Clone, Debug)]
pub(super) struct Strided {
    size: u64,
    pub(super) range: u64,
    skip: u64,
    bytes: u64,
}

impl Strided {
    pub(super) fn new(job: &FioJob) -> Option<Self> {
        if job.zonemode != ZoneMode::Strided || job.zonesize == 0 {
            return None;
        }
        let range = if job.zonerange == 0 { job.zonesize } else { job.zonerange };
        Some(Self { size: job.zonesize, range, skip: job.zoneskip, bytes: 0 })
    }

    pub(super) fn restart(&mut self) {
        self.bytes = 0;
    }

    /// Called before a request: moves to the next zone if this one is done. A zone that takes more bytes than it has
    /// starts again.
    pub(super) fn enter(&mut self, file: &mut File, direction: usize, grid: &Grid, rng: &mut Rng) {
        if self.bytes >= self.size {
            self.bytes = 0;
            file.base = file.base.saturating_add(self.range).saturating_add(self.skip);
            if file.base >= file.end {
                file.base = file.start;
            }
        }
        if self.bytes.is_multiple_of(self.range) {
            file.reset(Some(self), grid, rng);
        } else if file.last[direction] >= file.base.saturating_add(self.range) {
            file.last[direction] = file.base;
        }
    }

    pub(super) fn went(&mut self, len: u32) {
        self.bytes += u64::from(len);
    }
}
