//! What lies between a program and the device's own law: a host's cache, extents that were never written, space that is
//! allocated or loaded at the first touch, compression.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::draw::{Service, draw};
use super::host_cache::{CacheLines, HostCache};
use super::ranges::Ranges;
use super::reduction::{Reduction, StoredBlocks};
use crate::request::{Op, OpKind};

/// Reads of space that was never written are answered without the device: a filesystem's unwritten extents, a thin
/// volume, a sparse image.
#[derive(Clone, Debug, PartialEq)]
pub struct Unwritten {
    /// Time of such a read.
    pub read: Service,
}

/// The first touch of each chunk costs extra: a thin volume allocates space, a restored snapshot is loaded from remote
/// storage.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstTouch {
    /// Bytes that are allocated or loaded together.
    pub chunk: u64,
    /// The cost per chunk.
    pub penalty: Service,
    /// Whether the first write pays.
    pub on_write: bool,
    /// Whether the first read pays.
    pub on_read: bool,
}

/// All layers; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    /// A cache of reads.
    pub host: Option<HostCache>,
    /// What happens to reads of space that was never written.
    pub unwritten: Option<Unwritten>,
    /// The cost of first touches.
    pub first_touch: Option<FirstTouch>,
    /// Compression and deduplication.
    pub reduction: Option<Reduction>,
}

/// What the layers did with a request.
pub(super) enum LayerOutcome {
    /// It was answered at this moment, ns.
    Answered(f64),
    /// It is passed on to the device.
    Below {
        /// From this moment on, ns.
        begin_ns: f64,
        /// Bytes that the device has to move.
        bytes: f64,
    },
}

/// The layers at work.
#[derive(Debug)]
pub(super) struct LayersState {
    layers: Layers,
    held: Option<CacheLines>,
    written: Ranges,
    touched: Ranges,
    known: StoredBlocks,
}

impl LayersState {
    pub(super) fn new(layers: &Layers) -> Self {
        Self {
            held: layers.host.as_ref().map(CacheLines::new),
            layers: layers.clone(),
            written: Ranges::default(),
            touched: Ranges::default(),
            known: StoredBlocks::default(),
        }
    }

    /// Passes a request that begins at `begin_ns` through all layers. `data` is the data written, if known.
    pub(super) fn pass(
        &mut self,
        op: &Op,
        data: Option<&[u8]>,
        begin_ns: f64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> LayerOutcome {
        let (mut begin_ns, mut bytes) = (begin_ns, f64::from(op.len));
        let end = op.offset + u64::from(op.len);
        if op.kind == OpKind::Read
            && let Some(unwritten) = &self.layers.unwritten
            && !self.written.touches(op.offset, end)
        {
            return LayerOutcome::Answered(begin_ns + draw(rng, &unwritten.read, op.len));
        }
        if let (Some(host), Some(held)) = (&self.layers.host, &mut self.held) {
            let is_hit = op.kind == OpKind::Read && held.holds(op.offset, op.len);
            if op.kind == OpKind::Read || op.kind == OpKind::Write && host.fill_on_write {
                held.touch(op.offset, op.len);
            }
            if is_hit {
                return LayerOutcome::Answered(begin_ns + draw(rng, &host.hit, op.len));
            }
        }
        if let Some(first) = &self.layers.first_touch
            && (op.kind == OpKind::Write && first.on_write || op.kind == OpKind::Read && first.on_read)
        {
            let chunk = first.chunk.max(512);
            for number in op.offset / chunk..end.div_ceil(chunk) {
                let (from, to) = (number * chunk, (number + 1) * chunk);
                if !self.touched.touches(from, to) {
                    begin_ns += draw(rng, &first.penalty, 0);
                    self.touched.insert(from, to);
                }
            }
        }
        if op.kind == OpKind::Write {
            if self.layers.unwritten.is_some() {
                self.written.insert(op.offset, end);
            }
            if let (Some(reduction), Some(data)) = (&self.layers.reduction, data) {
                begin_ns += reduction.per_byte_ns * bytes;
                bytes *= self.known.stored_share(reduction, data);
            }
        }
        LayerOutcome::Below { begin_ns, bytes }
    }

    /// Whether the written data matters.
    pub(super) fn want_data(&self) -> bool {
        self.layers.reduction.is_some()
    }
}
