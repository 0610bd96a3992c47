//! Launches of programs with reductions: segments cut into chunks, chunks folded, the finish.
//!
//! Segments that lie together make a *group*: many short rows, or a strip of columns. Where groups are many, a thread takes
//! whole groups, and keeps nothing of them but what the finish stores; else chunks are shared out, and their results kept.

use std::cell::RefCell;

use jit_core::backend::Launch;
use jit_core::ir::{Reduction, SegmentLanes, Segments};
use jit_core::op::Op;
use jit_core::reduce::{ACCUMULATORS, accumulators, chunk_len, fold_chunk_results, of_none};

use crate::codegen::{STREAMS, STRIP, Strip};
use crate::kernel::{Calls, Kernel, Merging, order_streamed_stores};
use crate::private::Copies;

/// The most segments of a group of rows.
const GROUP: u64 = 64;

/// The segments of a launch.
struct Grouping {
    segments: Segments,
    lanes: u64,
    length: u64,
    /// The number of segments.
    count: u64,
    /// How many segments make a group.
    group: u64,
}

/// Segments that are worked off together; all but the last of a launch's have the same number of lanes.
#[derive(Clone, Copy)]
struct Group {
    first: u64,
    count: u64,
    /// Lanes of a segment (of rows: of the longest one).
    lanes: u64,
    chunk: u64,
    chunks: u64,
}

impl Grouping {
    fn new(segments: Segments, lanes: u64, length: u64) -> Grouping {
        let group = match segments {
            Segments::Columns => STRIP,
            // A chunk has at least 1024 lanes.
            Segments::Rows if length <= 1024 => (1024 / length).clamp(1, GROUP),
            _ => 1,
        };
        Grouping { segments, lanes, length, count: segments.count(lanes, length), group }
    }

    fn groups(&self) -> u64 {
        self.count.div_ceil(self.group)
    }

    fn group(&self, number: u64) -> Group {
        let first = number * self.group;
        let lanes = self.segments.lanes(first, self.lanes, self.length).count;
        let chunk = chunk_len(lanes);
        Group {
            first,
            count: self.group.min(self.count - first),
            lanes,
            chunk,
            chunks: lanes.div_ceil(chunk),
        }
    }
}

/// What a thread has.
struct Thread<'a> {
    copies: Option<Copies<'a>>,
    room: RefCell<Room>,
}

/// Memory that a thread uses again and again.
#[derive(Default)]
struct Room {
    /// Accumulators of columns.
    scratch: Vec<Line>,
    results: Vec<u64>,
    rows: Vec<u64>,
}

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "memory for generated code")] [u64; 8]);

/// Results of chunks, which threads write apart from each other.
struct Results(*mut u64);

// SAFETY: who writes where is decided by the numbers of chunks.
unsafe impl Sync for Results {}

impl Kernel {
    /// Runs a program with reductions.
    ///
    /// # Safety
    /// As for [`CompiledKernel::launch`](jit_core::backend::CompiledKernel::launch).
    pub(crate) unsafe fn run_segments(&self, launch: &Launch<'_>, arguments: &[[u64; 2]]) {
        let grouping = Grouping::new(self.outline.segments, launch.lanes, launch.segment);
        let groups = grouping.groups();
        let most_chunks = if groups == 0 { 0 } else { grouping.group(0).chunks };
        if most_chunks <= 1 || groups >= 4 * self.maker.pool.threads() as u64 {
            // SAFETY: as the caller promises.
            unsafe { self.run_groups(launch, arguments, &grouping) }
        } else {
            // SAFETY: as above.
            unsafe { self.run_chunks(launch, arguments, &grouping) }
        }
    }

    /// Each thread takes whole groups.
    ///
    /// # Safety
    /// As for `run_segments`.
    unsafe fn run_groups(&self, launch: &Launch<'_>, arguments: &[[u64; 2]], grouping: &Grouping) {
        let (groups, per_block) = self.split(launch.lanes, grouping.groups());
        let blocks = groups.div_ceil(per_block);
        let share = self.share(launch.lanes);
        let calls = self.calls(launch, arguments, self.maker.pool.is_alone(blocks, share));
        let slots = self.slots();
        let work = |thread: &Thread<'_>, block: u64| {
            let room = &mut *thread.room.borrow_mut();
            for number in block * per_block..((block + 1) * per_block).min(groups) {
                let group = grouping.group(number);
                let size = group.count as usize * slots;
                let mut results = std::mem::take(&mut room.results);
                results.resize(size * (group.chunks as usize).max(1), 0);
                for chunk in 0..group.chunks {
                    let at = results[chunk as usize * size..].as_mut_ptr();
                    // SAFETY: as the caller promises; each chunk is given to one call, and there is room for its results.
                    unsafe { self.run_chunk(&calls, thread, room, grouping, group, chunk, at) };
                }
                // SAFETY: as above.
                unsafe { self.complete(&calls, group, &mut results, room) };
                room.results = results;
            }
            if calls.modes & STREAMS != 0 {
                order_streamed_stores();
            }
        };
        let merging = Merging::default();
        // SAFETY: the memory is valid, as the caller promises, and the body touches only copies of it.
        let end = |thread: Thread<'_>| unsafe { merging.merge(thread.copies, arguments) };
        self.maker.pool.run(blocks, share, || self.thread(&calls), work, end);
    }

    /// Threads share out the chunks of few groups.
    ///
    /// # Safety
    /// As for `run_segments`.
    unsafe fn run_chunks(&self, launch: &Launch<'_>, arguments: &[[u64; 2]], grouping: &Grouping) {
        let groups: Vec<Group> = (0..grouping.groups()).map(|number| grouping.group(number)).collect();
        let slots = self.slots();
        // For each group its first chunk, and where its results begin.
        let mut starts = Vec::with_capacity(groups.len());
        let (mut all, mut size) = (0, 0);
        for group in &groups {
            starts.push((all, size));
            all += group.chunks;
            size += (group.chunks * group.count) as usize * slots;
        }
        let mut kept = vec![0u64; size];
        let (chunks, per_block) = self.split(launch.lanes, all);
        let blocks = chunks.div_ceil(per_block);
        let share = self.share(launch.lanes);
        let calls = self.calls(launch, arguments, self.maker.pool.is_alone(blocks, share));
        let results = Results(kept.as_mut_ptr());
        let work = |thread: &Thread<'_>, block: u64| {
            let results = &results;
            let room = &mut *thread.room.borrow_mut();
            for number in block * per_block..((block + 1) * per_block).min(chunks) {
                let which = starts.partition_point(|&(first, _)| first <= number) - 1;
                let (group, (first, start)) = (groups[which], starts[which]);
                let at = start + (number - first) as usize * group.count as usize * slots;
                // SAFETY: as the caller promises; each chunk is given to one call, and has a place for its results.
                unsafe {
                    let at = results.0.add(at);
                    self.run_chunk(&calls, thread, room, grouping, group, number - first, at);
                }
            }
            if calls.modes & STREAMS != 0 {
                order_streamed_stores();
            }
        };
        let merging = Merging::default();
        // SAFETY: the memory is valid, as the caller promises, and the body touches only copies of it.
        let end = |thread: Thread<'_>| unsafe { merging.merge(thread.copies, arguments) };
        self.maker.pool.run(blocks, share, || self.thread(&calls), work, end);
        let mut rest = &mut kept[..];
        let mut room = Room::default();
        for group in groups {
            let (own, others) = rest.split_at_mut((group.chunks * group.count) as usize * slots);
            // SAFETY: as above.
            unsafe { self.complete(&calls, group, own, &mut room) };
            rest = others;
        }
    }

    fn thread<'a>(&'a self, calls: &Calls<'_>) -> Thread<'a> {
        Thread { copies: self.copies(calls), room: RefCell::default() }
    }

    /// Runs one chunk of each segment of a group.
    ///
    /// # Safety
    /// As for `run_segments`; `results` has room for the group's segments, and no other call has the same lanes.
    #[expect(clippy::too_many_arguments, reason = "what a launch, a thread and a chunk are")]
    unsafe fn run_chunk(
        &self,
        calls: &Calls<'_>,
        thread: &Thread<'_>,
        room: &mut Room,
        grouping: &Grouping,
        group: Group,
        chunk: u64,
        results: *mut u64,
    ) {
        let arguments = thread.copies.as_ref().map_or(calls.arguments, |copies| &copies.arguments);
        let body = self.body();
        let call = |begin: u64, end: u64, results: *mut u64, strip: *const Strip| {
            // SAFETY: as the caller promises. With `STREAMS` all outputs are aligned to 64 bytes, and so is lane `begin` in
            // them: there is one segment, whose chunks begin at multiples of 1024. With `ALONE` there are no other calls
            // meanwhile, with `COPIED` none that are given the same copies.
            unsafe { body(arguments.as_ptr(), begin, end, calls.base, results, calls.modes, strip) };
        };
        let offset = chunk * group.chunk;
        if grouping.segments == Segments::Columns {
            let first = offset * grouping.length + group.first;
            if room.scratch.is_empty() {
                let bytes: usize =
                    self.outline.reductions.iter().flat_map(|r| &r.types).map(|dtype| dtype.size()).sum();
                let lines = bytes * ACCUMULATORS * STRIP as usize / size_of::<Line>();
                room.scratch = vec![Line([0; 8]); lines];
            }
            let strip = Strip {
                scratch: room.scratch.as_mut_ptr().cast(),
                stride: grouping.length,
                rows: group.chunk.min(group.lanes - offset),
            };
            return self.with_stack(|| call(first, first + group.count, results, &raw const strip));
        }
        self.with_stack(|| {
            for k in 0..group.count {
                let SegmentLanes { first, count, .. } =
                    grouping.segments.lanes(group.first + k, grouping.lanes, grouping.length);
                let end = (offset + group.chunk).min(count);
                call(
                    first + offset,
                    first + end,
                    results.wrapping_add(k as usize * self.slots()),
                    std::ptr::null(),
                );
            }
        });
    }

    /// Folds the results of a group's chunks, and runs the finish of its segments. `results` has, chunk after chunk, the
    /// slots of each segment.
    ///
    /// # Safety
    /// As for `run_segments`.
    unsafe fn complete(&self, calls: &Calls<'_>, group: Group, results: &mut [u64], room: &mut Room) {
        let slots = self.slots();
        let size = group.count as usize * slots;
        let mut none = Vec::new();
        let results = if results.is_empty() {
            none.resize(size, 0);
            &mut none[..]
        } else {
            results
        };
        if group.chunks != 1 {
            for segment in 0..group.count as usize {
                self.fold_segment(calls, group.chunks as usize, results, segment * slots, size, room);
            }
        }
        let Some(finish) = self.finish() else { return };
        // SAFETY: as the caller promises; the finish reads the slots of the group's segments.
        self.with_stack(|| unsafe {
            let (first, end) = (group.first, group.first + group.count);
            finish(calls.arguments.as_ptr(), first, end, 0, results.as_mut_ptr(), 0, std::ptr::null());
        });
    }

    /// Folds the results of a segment's chunks, which lie `stride` apart from `at` on, into the first.
    fn fold_segment(
        &self,
        calls: &Calls<'_>,
        chunks: usize,
        results: &mut [u64],
        at: usize,
        stride: usize,
        room: &mut Room,
    ) {
        let mut slot = 0;
        let mut by_block = false;
        for Reduction { combine, types } in &self.outline.reductions {
            if *combine == Op::Reduce {
                by_block = true;
            } else if chunks == 0 {
                results[at + slot] = of_none(*combine, types[0]);
            } else {
                room.rows.clear();
                room.rows.extend((0..chunks).map(|chunk| results[chunk * stride + at + slot]));
                results[at + slot] = fold_chunk_results(*combine, types[0], &mut room.rows);
            }
            slot += types.len();
        }
        if by_block {
            let slots = slot;
            room.rows.clear();
            for chunk in 0..chunks {
                room.rows.extend_from_slice(&results[chunk * stride + at..][..slots]);
            }
            self.fold_by_block(calls, &mut room.rows, slots);
            let mut slot = 0;
            for Reduction { combine, types } in &self.outline.reductions {
                let own = slot..slot + types.len();
                if *combine == Op::Reduce {
                    results[at + own.start..at + own.end].copy_from_slice(&room.rows[own.clone()]);
                }
                slot = own.end;
            }
        }
    }

    /// Folds rows of so many slots by the rule, into the first row. Of no rows it makes one of identities.
    fn fold_by_block(&self, calls: &Calls<'_>, rows: &mut Vec<u64>, slots: usize) {
        let mut count = rows.len() / slots;
        if count == 0 {
            rows.resize(slots, 0);
        }
        loop {
            let chunk = chunk_len(count as u64) as usize;
            let chunks = count.div_ceil(chunk).max(1);
            for k in 0..chunks {
                let own = &mut rows[k * chunk * slots..];
                let len = chunk.min(count - k * chunk);
                // SAFETY: the fold reads so many rows and writes the first; what it reads of the arguments is valid, as
                // whoever launches promises.
                self.with_stack(|| unsafe {
                    let (results, strip) = (own.as_mut_ptr(), std::ptr::null());
                    let modes = accumulators(len as u64) as u64;
                    self.fold()(calls.arguments.as_ptr(), 0, len as u64, 0, results, modes, strip);
                });
                rows.copy_within(k * chunk * slots..(k * chunk + 1) * slots, k * slots);
            }
            count = chunks;
            if count == 1 {
                return;
            }
        }
    }
}
