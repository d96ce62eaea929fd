/* Aggregates for `qd1 watch` in the kernel: latency histograms of requests and, on demand, the requests in flight and
 * what processes read, write and wait for. On disks without requests (zram, device mapper, md), bios take their place.
 */
#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct counter {
	int counter;
};
struct blk_mq_hw_ctx {
	u32 queue_num;
};
struct request___more {
	struct blk_mq_hw_ctx *mq_hctx;
	int tag;
	int internal_tag; /* assigned by the scheduler; negative without one */
	u64 start_time_ns;
	u64 io_start_time_ns;
	struct counter ref;
};
#pragma clang attribute pop

const volatile u32 with_waits = 0; /* whether io_start and rq_issue are attached, and processes counted */
/* Whether the kernel does not record the start of requests (iostats is off): the field then holds a stale value. */
const volatile u32 no_start = 0;

/* With io_seen and rq_seen: the process whose requests do not count. */
const volatile u32 own_pid = 0;

enum { READ = 0, WRITE = 1, OP_DISCARD = 3, OTHER = 4, OPS = 5 };
/* From creation until the device got the request, from then until completion, and both together. */
enum { QUEUE = 0, DEVICE = 1, TOTAL = 2, STAGES = 3 };
/* Sixteen buckets for each doubling, from 1024 ns on; below, steps of 64 ns. */
enum { PER_DOUBLING_BITS = 4, FIRST_BITS = 10, BUCKETS = 432, DISKS_MAX = 64 };

/* The requests of one disk and one operation. Counters wrap at 2^32. */
struct latencies {
	u64 bytes;
	u32 unstamped;	/* requests whose time of issue is not known, and bios that were not seen to the end */
	u32 unused;
	u32 buckets[STAGES][BUCKETS];
};

struct {
	uint(type, MAP_PERCPU_ARRAY);
	uint(max_entries, DISKS_MAX * OPS);
	type(key, u32);
	type(value, struct latencies);
} latencies SEC(".maps");

/* The slot of each disk in `latencies`; filled by the reader. */
struct {
	uint(type, MAP_HASH);
	uint(max_entries, DISKS_MAX);
	type(key, u32);
	type(value, u32);
} places SEC(".maps");

/* A request or bio that the device has not completed yet. */
struct on_its_way {
	u64 rq; /* or the bio; 0: none */
	u64 start_ns;
	u64 issue_ns; /* 0 if the device has not got it yet */
	u32 bytes;
	u32 device;
	u32 flags;
	u32 splits; /* of a bio */
	struct who who;
};

/* A request is in one of two slots, by disk, queue and tag. A third one with the same key evicts the first. */
enum { IN_FLIGHT_BITS = 14, IN_FLIGHT_MAX = 1 << IN_FLIGHT_BITS };
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, IN_FLIGHT_MAX);
	type(key, u32);
	type(value, struct on_its_way);
} in_flight SEC(".maps");

/* What a process has done on a disk since it was first seen there. */
struct use {
	u32 pid;
	u32 device; /* 0: a filesystem on several disks */
};
struct process {
	u64 cgroup;
	u64 read_bytes;
	u64 write_bytes;
	u64 changed_bytes; /* in memory, to be written later */
	u64 requests;
	u64 syncs;
	u64 sync_ns; /* total of all its threads */
	u64 longest_sync_ns;
	u64 mapped_at; /* the address of its last msync; 0: none */
	char comm[16];
};

struct {
	uint(type, MAP_LRU_HASH);
	uint(max_entries, 4096);
	type(key, struct use);
	type(value, struct process);
} processes SEC(".maps");

/* Old requests, as found by `scan`. */
struct {
	uint(type, MAP_RINGBUF);
	uint(max_entries, 1048576);
} found SEC(".maps");

static always_inline struct process *process_of(struct who *who, u32 disk)
{
	struct use use = { .pid = who->pid, .device = disk };
	struct process *it = map_lookup(&processes, &use);
	if (it)
		return it;
	struct process first = { .cgroup = who->cgroup };
	__builtin_memcpy(first.comm, who->comm, sizeof(first.comm));
	map_update(&processes, &use, &first, NO_EXIST);
	return map_lookup(&processes, &use);
}

static always_inline u32 place_of(u32 disk)
{
	if (device)
		return device == disk ? 0 : DISKS_MAX;
	u32 *place = map_lookup(&places, &disk);
	return place ? *place : DISKS_MAX;
}

static always_inline struct on_its_way *find(struct request *rq, u32 place, int make)
{
	struct request___more *more = (struct request___more *)rq;
	u32 tag = more->internal_tag >= 0 ? more->internal_tag : more->tag;
	u32 queue = more->mq_hctx ? more->mq_hctx->queue_num : 0;
	u32 at = (tag + (queue << 12) + (place << 24)) * 2654435761u >> (32 - IN_FLIGHT_BITS), other = at ^ 1;
	struct on_its_way *first = map_lookup(&in_flight, &at), *second;
	if (!first || first->rq == (u64)rq)
		return first;
	second = map_lookup(&in_flight, &other);
	if (!second || second->rq == (u64)rq)
		return second;
	if (!make)
		return 0;
	return !first->rq || second->rq ? first : second;
}

static always_inline u32 bucket_of(u64 ns)
{
	if (ns < 1 << FIRST_BITS)
		return ns >> (FIRST_BITS - PER_DOUBLING_BITS);
	u64 left = ns >> FIRST_BITS;
	u32 bits = FIRST_BITS;
	if (left >> 16)
		left >>= 16, bits += 16;
	if (left >> 8)
		left >>= 8, bits += 8;
	if (left >> 4)
		left >>= 4, bits += 4;
	if (left >> 2)
		left >>= 2, bits += 2;
	bits += left >> 1 & 1;
	u32 bucket = (bits - FIRST_BITS + 1) << PER_DOUBLING_BITS | (ns >> (bits - PER_DOUBLING_BITS) & 15);
	return ns >> 36 ? BUCKETS - 1 : bucket;
}

static always_inline void add(u32 *buckets, u64 ns, u32 count)
{
	u64 bucket = bucket_of(ns);
	/* Verifiers before 6.5 only accept the bound if it is checked in the register that is used. */
	keep_in_register(bucket);
	if (bucket < BUCKETS)
		buckets[bucket] += count;
}

static always_inline u32 op_of(u32 flags)
{
	u32 op = flags & OP_MASK;
	return op <= OP_DISCARD ? op : OTHER;
}

static always_inline void describe(struct on_its_way *it, struct request *rq, u32 disk)
{
	it->bytes = rq->__data_len;
	it->device = disk;
	it->flags = rq->cmd_flags;
}

/* A request is created; runs in the context of the issuing thread (from 6.5 on). */
SEC("tp_btf/block_io_start")
int io_start(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	u32 disk = device_of(rq), place = place_of(disk);
	if (place >= DISKS_MAX)
		return 0;
	struct on_its_way *it = find(rq, place, 1);
	if (!it)
		return 0;
	/* Clear it first, so that `scan` on another processor does not see a half-written entry. */
	it->rq = 0;
	barrier();
	it->start_ns = ktime_get_ns();
	it->issue_ns = 0;
	describe(it, rq, disk);
	ask_who(&it->who);
	barrier();
	it->rq = (u64)rq;
	return 0;
}

/* The device gets a request. */
SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *context)
{
	struct request *rq = (struct request *)subject(context, rq_is_second);
	u32 disk = device_of(rq), place = place_of(disk);
	if (place >= DISKS_MAX)
		return 0;
	struct on_its_way *it = find(rq, place, 1);
	if (!it)
		return 0;
	int is_known = it->rq == (u64)rq;
	it->rq = 0;
	barrier();
	if (!is_known) {
		it->start_ns = 0;
		ask_who(&it->who);
	}
	/* It may have grown since it was created. */
	describe(it, rq, disk);
	it->issue_ns = ktime_get_ns();
	barrier();
	it->rq = (u64)rq;
	return 0;
}

static always_inline void count_process(struct on_its_way *it, u32 op, u32 bytes, u32 count)
{
	struct process *process = process_of(&it->who, it->device);
	if (!process)
		return;
	/* The process may have executed another program since. */
	__builtin_memcpy(process->comm, it->who.comm, sizeof(process->comm));
	process->cgroup = it->who.cgroup;
	__sync_fetch_and_add(&process->requests, count);
	if (op == READ)
		__sync_fetch_and_add(&process->read_bytes, bytes);
	else if (op == WRITE)
		__sync_fetch_and_add(&process->write_bytes, bytes);
}

/* The device has completed a request or a part of it. */
SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	struct request___more *more = (struct request___more *)rq;
	u32 place = place_of(device_of(rq)), bytes = rq->__data_len, op = op_of(rq->cmd_flags);
	/* Only a part: the rest is completed later. */
	if (place >= DISKS_MAX || (u32)context[2] < bytes)
		return 0;
	u64 now = ktime_get_ns(), start = more->start_time_ns, issue = more->io_start_time_ns;
	/* The kernel sets the time of issue only if something on the queue keeps statistics. */
	struct on_its_way *it = with_waits || no_start || !issue ? find(rq, place, 0) : 0;
	if (no_start && op != OP_FLUSH)
		start = 0;
	if (it) {
		if (!issue)
			issue = it->issue_ns;
		if (!start)
			start = it->start_ns;
		it->rq = 0;
	}
	/* The end of a flush sequence; its parts were separate requests. */
	if (!bytes && op != OP_FLUSH)
		return 0;
	if (with_waits && it)
		count_process(it, op, bytes, 1);
	u32 key = place * OPS + op;
	struct latencies *of = map_lookup(&latencies, &key);
	if (!of)
		return 0;
	of->bytes += bytes;
	if (!issue)
		of->unstamped += 1;
	else
		add(of->buckets[DEVICE], now > issue ? now - issue : 0, 1);
	if (issue && start)
		add(of->buckets[QUEUE], issue > start ? issue - start : 0, 1);
	/* If the time of creation is not known, count from the issue. */
	if (!start)
		start = issue;
	if (start)
		add(of->buckets[TOTAL], now > start ? now - start : 0, 1);
	return 0;
}

/* Counts a request for its process, unless it is our own or a kernel thread issues it, which it does for others. */
static always_inline int seen(struct request *rq)
{
	u32 disk = device_of(rq), of_task = 0;
	if (disk != device || (u32)(get_current_pid_tgid() >> 32) == own_pid)
		return 0;
	read_current(of_task, flags);
	if (of_task & PF_KTHREAD)
		return 0;
	struct on_its_way it = { .device = disk };
	ask_who(&it.who);
	count_process(&it, op_of(rq->cmd_flags), rq->__data_len, 1);
	return 0;
}

SEC("tp_btf/block_io_start")
int io_seen(u64 *context)
{
	return seen((struct request *)context[0]);
}

/* Before 6.5. */
SEC("tp_btf/block_rq_issue")
int rq_seen(u64 *context)
{
	return seen((struct request *)subject(context, rq_is_second));
}

/* A request that took long. */
struct slow {
	u64 complete_ns;
	u64 device_ns; /* 0 if the kernel did not record when the device got it */
	u32 flags;
	u32 bytes;
};
/* How long, ns. */
const volatile u64 slow_ns = 0;

/* Slow requests for which `found` had no room. */
struct {
	uint(type, MAP_ARRAY);
	uint(max_entries, 1);
	type(key, u32);
	type(value, u64);
} slow_lost SEC(".maps");

/* Reports slow requests; by the kernel's own stamps, so that nothing has to be done when a request is created. */
SEC("tp_btf/block_rq_complete")
int rq_slow(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	struct request___more *more = (struct request___more *)rq;
	if (device_of(rq) != device || (u32)context[2] < rq->__data_len)
		return 0;
	u64 now = ktime_get_ns(), start = more->start_time_ns, issue = more->io_start_time_ns;
	if (!start || now < start + slow_ns)
		return 0;
	struct slow it = {
		.complete_ns = now,
		.device_ns = issue ? now - issue : 0,
		.flags = rq->cmd_flags,
		.bytes = rq->__data_len,
	};
	/* The end of a flush sequence; its parts were separate requests. */
	if (!it.bytes && op_of(it.flags) != OP_FLUSH)
		return 0;
	if (ringbuf_output(&found, &it, sizeof(it), NO_WAKEUP)) {
		u32 key = 0;
		u64 *lost = map_lookup(&slow_lost, &key);
		if (lost)
			__sync_fetch_and_add(lost, 1);
	}
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int folio_dirtied(u64 *context)
{
	u32 disk = 0;
	if (own_pid && (u32)(get_current_pid_tgid() >> 32) == own_pid)
		return 0;
	u64 bytes = changed_in_memory(context, &disk, 1);
	if (!bytes)
		return 0;
	struct who who;
	ask_who(&who);
	struct process *process = process_of(&who, disk);
	if (process)
		__sync_fetch_and_add(&process->changed_bytes, bytes);
	return 0;
}

static always_inline void call_ended(struct sync *it, long result)
{
	u64 took = ktime_get_ns() - it->start_ns;
	struct process *process = process_of(&it->who, it->device);
	if (!process)
		return;
	__sync_fetch_and_add(&process->syncs, 1);
	__sync_fetch_and_add(&process->sync_ns, took);
	if (took > process->longest_sync_ns)
		process->longest_sync_ns = took;
	if (it->call == MSYNC)
		process->mapped_at = it->inode;
}

/* Called by the reader for a part of the table: reports requests in flight since before a given time. The kernel skips
 * rq_complete in some contexts, so check whether the request is still referenced. */
enum { SCANNED_AT_ONCE = 512 };
SEC("raw_tp/scan")
int scan(u64 *context)
{
	u64 before = context[1];
	u32 from = context[0];
	for (u32 at = 0; at < SCANNED_AT_ONCE; at++) {
		u32 key = from + at;
		struct on_its_way *it = map_lookup(&in_flight, &key);
		if (!it || !it->rq || (it->start_ns ? it->start_ns : it->issue_ns) >= before)
			continue;
		struct request___more *more = (struct request___more *)it->rq;
		int held = 1;
		if (HAS(((struct request___more *)0)->ref.counter))
			probe_read_kernel(&held, sizeof(held), &more->ref.counter);
		if (held)
			ringbuf_output(&found, it, sizeof(*it), NO_WAKEUP);
		else
			it->rq = 0;
	}
	return 0;
}

#include "bios.h"
