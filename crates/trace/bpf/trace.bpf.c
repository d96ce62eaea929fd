/* Reports block requests and syncs for `qd1 trace`: one event for each that is completed.
 *
 * Built by `cargo xtask bpf` with a pinned clang; the object is committed, so that nobody else needs clang.
 */
#include "kernel.h"

const volatile u32 with_syncs = 0;   /* whether the programs for syncs are attached */

/* A request in flight. */
struct on_its_way {
	u64 start_ns; /* when it was created; 0 if that was not seen */
	u64 issue_ns; /* when the device got it; 0 if it has not yet */
	u32 blkcg;
	u32 is_kernels; /* whether a kernel thread issued it; only known with syncs */
	struct who who;
};

/* Kinds of events. */
enum { REQUEST = 0, REQUEST_WITH_START = 1, SYNC = 2, RELEASED = 3, DIRTIED = 4, KERNELS = 0x100, OF_RING = 0x200 };

/* An event: 88 bytes, in the byte order of the machine. */
struct event {
	u64 complete_ns;
	u64 queue_ns;  /* for a sync: how long its thread waited for a processor */
	u64 device_ns; /* for a sync: how long it took */
	u64 sector;    /* for a sync: the inode */
	u32 bytes;
	u32 device;
	u32 flags; /* for a sync: the number of the call */
	int error;
	u32 kind;
	u32 blkcg; /* the I/O control group (v1 or v2) that is charged, by the kernel's id; 0 if not known */
	struct who who;
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 65536);
	type(key, u64);
	type(value, struct on_its_way);
} requests SEC(".maps");

/* The bio that a thread submitted last. Nothing reports that a thread ended, so the oldest entries are evicted. */
struct asked {
	u64 at_ns;
	u64 bio;
};

struct {
	uint(type, MAP_LRU_HASH);
	uint(max_entries, 16384);
	type(key, u32);
	type(value, struct asked);
} askers SEC(".maps");

struct {
	uint(type, MAP_RINGBUF);
	uint(max_entries, 8388608);
} events SEC(".maps");

/* Counters: 0 requests for which the ring buffer had no room, 1 requests whose issue or completion was not seen or not
 * kept, 2 completed requests, 3 other events for which the ring buffer had no room. */
struct {
	uint(type, MAP_PERCPU_ARRAY);
	uint(max_entries, 4);
	type(key, u32);
	type(value, u64);
} counts SEC(".maps");

enum { LOST = 0, UNSEEN = 1, COMPLETED = 2, LOST_OTHER = 3 };

static always_inline void count(u32 which)
{
	u64 *of = map_lookup(&counts, &which);
	if (of)
		*of += 1;
}

/* Reports an event other than a request; these are rare enough to be copied. */
static always_inline void report(struct event *event)
{
	if (ringbuf_output(&events, event, sizeof(*event), NO_WAKEUP))
		count(LOST_OTHER);
}

enum { ROOT = 1, OP_READ = 0, REQ_SYNC = 1 << 11 };

/* Whether a limit of its control group held a request back: a kernel worker issues it on behalf of the group. Writeback
 * threads do so, too, for writes that nobody waits for; those workers are not bound to a processor (kworker/u4:1), while the
 * limit's are (kworker/0:1). */
static always_inline int is_released(u32 of_task, struct who *who, u32 blkcg, u32 flags)
{
	int is_waited_for = (flags & OP_MASK) == OP_READ || flags & REQ_SYNC;
	return of_task & PF_WQ_WORKER && blkcg > ROOT && (is_waited_for || who->comm[8] != 'u');
}

/* What is known about a request from before its creation: since when a thread waited for it (for a free tag or wbt),
 * for which control group it is, and whether that group's limit held it back. */
static always_inline void what_came_before(struct request *rq, struct on_its_way *it)
{
	u32 tid = it->who.tid;
	struct bio *bio = rq->bio;
	struct asked *asked = map_lookup(&askers, &tid);
	u32 of_task = 0;
	read_current(of_task, flags);
	it->is_kernels = !!(of_task & PF_KTHREAD);
	if (!bio)
		return;
	if (HAS(((struct bio *)0)->bi_blkg) && bio->bi_blkg)
		it->blkcg = bio->bi_blkg->blkcg->css.id;
	u32 flags = rq->cmd_flags;
	if (!is_released(of_task, &it->who, it->blkcg, flags)) {
		if (asked && asked->bio == (u64)bio)
			it->start_ns = asked->at_ns;
		return;
	}
	struct event event = {
		.complete_ns = it->start_ns,
		.sector = rq->__sector,
		.bytes = rq->__data_len,
		.device = device_of(rq),
		.flags = flags,
		.kind = RELEASED,
		.blkcg = it->blkcg,
		.who = it->who,
	};
	report(&event);
}

/* A request is created; runs in the context of the issuing thread (from 6.5 on). */
SEC("tp_btf/block_io_start")
int io_start(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	if (device && device_of(rq) != device)
		return 0;
	struct on_its_way it = { .start_ns = ktime_get_ns() };
	ask_who(&it.who);
	if (with_syncs)
		what_came_before(rq, &it);
	u64 key = (u64)rq;
	/* If the table is full, the request is counted as unseen once it is completed. */
	if (!map_update(&requests, &key, &it, NO_EXIST))
		return 0;
	/* The previous request in this memory was completed unseen: the kernel runs no program while it interrupts a run
	 * of the same program, nor, on some virtual machines, during tasks of the host's agent. */
	struct on_its_way *before = map_lookup(&requests, &key);
	if (before && before->issue_ns) {
		count(COMPLETED);
		count(UNSEEN);
	}
	map_update(&requests, &key, &it, ANY);
	return 0;
}

/* The device gets a request. */
SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *context)
{
	struct request *rq = (struct request *)subject(context, rq_is_second);
	if (device && device_of(rq) != device)
		return 0;
	u64 key = (u64)rq;
	struct on_its_way *known = map_lookup(&requests, &key);
	if (known) {
		known->issue_ns = ktime_get_ns();
		return 0;
	}
	struct on_its_way it = { .issue_ns = ktime_get_ns() };
	ask_who(&it.who);
	/* If the table is full, the request is counted as unseen once it is completed. */
	map_update(&requests, &key, &it, ANY);
	return 0;
}

/* The device has completed a request or a part of it. */
SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	u32 bytes = 0, flags = 0, of = device_of(rq);
	if (device && of != device)
		return 0;
	bytes = rq->__data_len;
	/* Only a part: the rest is completed later. */
	if ((u32)context[2] < bytes)
		return 0;
	u64 key = (u64)rq, now = ktime_get_ns();
	flags = rq->cmd_flags;
	/* The end of a flush sequence; its parts were separate requests. */
	if (!bytes && (flags & OP_MASK) != OP_FLUSH) {
		map_delete(&requests, &key);
		return 0;
	}
	count(COMPLETED);
	struct on_its_way *it = map_lookup(&requests, &key);
	if (!it || !it->issue_ns) {
		count(UNSEEN);
		map_delete(&requests, &key);
		return 0;
	}
	struct event *event = ringbuf_reserve(&events, sizeof(*event), 0);
	if (event) {
		event->complete_ns = now;
		event->queue_ns = it->start_ns ? it->issue_ns - it->start_ns : 0;
		event->device_ns = now - it->issue_ns;
		event->sector = rq->__sector;
		event->bytes = bytes;
		event->device = of;
		event->flags = flags;
		event->error = (int)context[1];
		event->kind = (it->start_ns ? REQUEST_WITH_START : REQUEST) | (it->is_kernels ? KERNELS : 0);
		event->blkcg = it->blkcg;
		event->who = it->who;
		ringbuf_submit(event, NO_WAKEUP);
	} else {
		count(LOST);
	}
	map_delete(&requests, &key);
	return 0;
}

/* A bio of a disk without requests (zram, device mapper, md) that is under way. Its position moves while it is served. */
struct bio_on_its_way {
	u64 issue_ns;
	u64 sector;
	u32 bytes;
	u32 flags;
	u32 blkcg;
	u32 is_kernels;
	struct who who;
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 65536);
	type(key, u64);
	type(value, struct bio_on_its_way);
} bios SEC(".maps");

/* A disk without requests gets a bio; this is after the limits of control groups. */
SEC("tp_btf/block_bio_queue")
int bio_begins(u64 *context)
{
	struct bio *bio = (struct bio *)subject(context, bio_is_second);
	if (number_of(disk_of_bio(bio)) != device)
		return 0;
	u64 key = (u64)bio;
	u32 of_task = 0;
	struct bio_on_its_way it = {
		.sector = bio->bi_iter.bi_sector,
		.bytes = bio->bi_iter.bi_size,
		.flags = flags_of_bio(bio),
	};
	ask_who(&it.who);
	read_current(of_task, flags);
	it.is_kernels = !!(of_task & PF_KTHREAD);
	if (HAS(((struct bio *)0)->bi_blkg) && bio->bi_blkg)
		it.blkcg = bio->bi_blkg->blkcg->css.id;
	it.issue_ns = ktime_get_ns();
	map_update(&bios, &key, &it, ANY);
	if (with_syncs && is_released(of_task, &it.who, it.blkcg, it.flags)) {
		struct event event = {
			.complete_ns = it.issue_ns,
			.sector = it.sector,
			.bytes = it.bytes,
			.device = device,
			.flags = it.flags,
			.kind = RELEASED,
			.blkcg = it.blkcg,
			.who = it.who,
		};
		report(&event);
	}
	return 0;
}

/* A bio is completed. */
SEC("tp_btf/block_bio_complete")
int bio_ends(u64 *context)
{
	struct bio *bio = (struct bio *)context[1];
	u64 key = (u64)bio, now = ktime_get_ns();
	struct bio_on_its_way *it = map_lookup(&bios, &key);
	if (!it) {
		if (number_of(disk_of_bio(bio)) == device) {
			count(COMPLETED);
			count(UNSEEN);
		}
		return 0;
	}
	/* It may belong to another disk by now: some drivers pass on the bio itself. */
	count(COMPLETED);
	struct event *event = ringbuf_reserve(&events, sizeof(*event), 0);
	if (event) {
		event->complete_ns = now;
		event->queue_ns = 0;
		event->device_ns = now - it->issue_ns;
		event->sector = it->sector;
		event->bytes = it->bytes;
		event->device = device;
		event->flags = it->flags;
		event->error = bio->bi_status;
		event->kind = REQUEST | (it->is_kernels ? KERNELS : 0);
		event->blkcg = it->blkcg;
		event->who = it->who;
		ringbuf_submit(event, NO_WAKEUP);
	} else {
		count(LOST);
	}
	map_delete(&bios, &key);
	return 0;
}

/* A thread submits a bio; this is after the limits of control groups. */
SEC("tp_btf/block_bio_queue")
int bio_queued(u64 *context)
{
	struct bio *bio = (struct bio *)subject(context, bio_is_second);
	u32 of = number_of(disk_of_bio(bio));
	if (device && of != device)
		return 0;
	struct asked it = { .at_ns = ktime_get_ns(), .bio = (u64)bio };
	u32 tid = get_current_pid_tgid();
	map_update(&askers, &tid, &it, ANY);
	return 0;
}

/* Reported in steps of 1 MiB. */
enum { BYTES_REPORTED = 1 << 20 };
SEC("tp_btf/writeback_dirty_folio")
int folio_dirtied(u64 *context)
{
	u32 disk = 0;
	u64 bytes = changed_in_memory(context, &disk, BYTES_REPORTED);
	if (!bytes)
		return 0;
	struct event event = { .complete_ns = ktime_get_ns(), .bytes = bytes, .device = disk, .kind = DIRTIED };
	ask_who(&event.who);
	report(&event);
	return 0;
}

static always_inline void call_ended(struct sync *it, long result)
{
	u64 now = ktime_get_ns();
	struct event event = {
		.complete_ns = now,
		.queue_ns = it->is_of_ring ? 0 : run_delay_ns() - it->run_delay_ns,
		.device_ns = now - it->start_ns,
		.sector = it->inode,
		.bytes = (it->call & ~DIRECT) >= SYNC_CALLS && result > 0 ? result : 0,
		.device = it->device,
		.flags = it->call,
		.error = result < 0 ? result : 0,
		.kind = SYNC | (it->is_of_ring ? OF_RING : 0),
		.blkcg = it->blkcg,
		.who = it->who,
	};
	report(&event);
}
