/* What qd1 asks of the kernel about block requests: one event for each completed request.
 *
 * Built by `cargo xtask bpf` with a pinned clang; the object is committed, so that nobody else needs a compiler. The
 * kernel's structures are declared as far as they are used; where their fields are is found when it is loaded (CO-RE).
 * No kprobes: tracepoints whose arguments the kernel describes (BTF), so that fields are read without a call.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define uint(name, value) int(*name)[value]
#define type(name, value) value *name
#define always_inline inline __attribute__((always_inline))

enum { MAP_HASH = 1, MAP_PERCPU_ARRAY = 6, MAP_RINGBUF = 27 };
enum { ANY = 0, NO_EXIST = 1 };
enum { OP_FLUSH = 2 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u64 (*get_current_pid_tgid)(void) = (void *)14;
static long (*get_current_comm)(void *to, u32 size) = (void *)16;
static u64 (*get_current_cgroup_id)(void) = (void *)80;
static void *(*ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *data, u64 flags) = (void *)132;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk {
	int major;
	int first_minor;
};
struct request_queue {
	struct gendisk *disk;
};
struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
};
/* Before 5.17 a request knew its disk, and the queue did not. */
struct request___old {
	struct gendisk *rq_disk;
};
#pragma clang attribute pop

/* Whether the running kernel has the field. */
#define HAS(field) __builtin_preserve_field_info(field, 2)

/* Set before loading. */
const volatile u32 rq_is_second = 0; /* block_rq_issue and _insert of kernels before 5.11 have the queue first */
const volatile u32 device = 0;       /* major << 20 | minor of the disk; 0: all */

/* A request on its way. */
struct on_its_way {
	u64 start_ns; /* when somebody asked for it; 0 where that was not seen */
	u64 issue_ns; /* when the device got it; 0 where it has not */
	u64 cgroup;
	u32 pid;
	char comm[16];
};

/* One completed request: 80 bytes, in the byte order of the machine. */
struct event {
	u64 complete_ns;
	u64 queue_ns;
	u64 device_ns;
	u64 sector;
	u64 cgroup;
	u32 bytes;
	u32 device;
	u32 flags;
	u32 pid;
	int error;
	u32 has_start;
	char comm[16];
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 65536);
	type(key, u64);
	type(value, struct on_its_way);
} requests SEC(".maps");

struct {
	uint(type, MAP_RINGBUF);
	uint(max_entries, 8388608);
} events SEC(".maps");

/* What was and was not recorded: 0 events for which the ring had no room, 1 requests whose issue or completion was not seen
 * or not kept, 2 completed requests. */
struct {
	uint(type, MAP_PERCPU_ARRAY);
	uint(max_entries, 3);
	type(key, u32);
	type(value, u64);
} counts SEC(".maps");

enum { LOST = 0, UNSEEN = 1, COMPLETED = 2 };

static always_inline void count(u32 which)
{
	u64 *of = map_lookup(&counts, &which);
	if (of)
		*of += 1;
}

static always_inline u32 device_of(struct request *rq)
{
	struct gendisk *disk =
		HAS(((struct request_queue *)0)->disk) ? rq->q->disk : ((struct request___old *)rq)->rq_disk;
	if (!disk)
		return 0;
	return (u32)disk->major << 20 | ((u32)disk->first_minor & 0xfffff);
}

static always_inline void who(struct on_its_way *it)
{
	it->pid = get_current_pid_tgid() >> 32;
	it->cgroup = get_current_cgroup_id();
	get_current_comm(it->comm, sizeof(it->comm));
}

/* Somebody asked: in the context of who did (from 6.5 on). */
SEC("tp_btf/block_io_start")
int io_start(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	if (device && device_of(rq) != device)
		return 0;
	struct on_its_way it = { .start_ns = ktime_get_ns() };
	who(&it);
	u64 key = (u64)rq;
	/* One that the full table does not take is counted as unseen when it is complete. */
	if (!map_update(&requests, &key, &it, NO_EXIST))
		return 0;
	/* The request before it in this memory is complete, and that was not seen: the kernel runs no program where another
	 * run of the same one is interrupted, and none for tasks that a machine hides. */
	struct on_its_way *before = map_lookup(&requests, &key);
	if (before && before->issue_ns) {
		count(COMPLETED);
		count(UNSEEN);
	}
	map_update(&requests, &key, &it, ANY);
	return 0;
}

/* The device gets it. */
SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *context)
{
	struct request *rq = (struct request *)context[rq_is_second ? 1 : 0];
	if (device && device_of(rq) != device)
		return 0;
	u64 key = (u64)rq;
	struct on_its_way *known = map_lookup(&requests, &key);
	if (known) {
		known->issue_ns = ktime_get_ns();
		return 0;
	}
	struct on_its_way it = { .issue_ns = ktime_get_ns() };
	who(&it);
	/* One that the full table does not take is counted as unseen when it is complete. */
	map_update(&requests, &key, &it, ANY);
	return 0;
}

/* The device is done with all or a part of it. */
SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *context)
{
	struct request *rq = (struct request *)context[0];
	u32 bytes = 0, flags = 0, of = device_of(rq);
	if (device && of != device)
		return 0;
	bytes = rq->__data_len;
	/* A part of it: the rest is completed later. */
	if ((u32)context[2] < bytes)
		return 0;
	u64 key = (u64)rq, now = ktime_get_ns();
	flags = rq->cmd_flags;
	/* The end of a sequence of flushes: its parts were requests of their own. */
	if (!bytes && (flags & 0xff) != OP_FLUSH) {
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
		event->cgroup = it->cgroup;
		event->bytes = bytes;
		event->device = of;
		event->flags = flags;
		event->pid = it->pid;
		event->error = (int)context[1];
		event->has_start = it->start_ns != 0;
		__builtin_memcpy(event->comm, it->comm, sizeof(event->comm));
		/* The reader looks a hundred times a second: no wake-up for each. */
		ringbuf_submit(event, 1);
	} else {
		count(LOST);
	}
	map_delete(&requests, &key);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
