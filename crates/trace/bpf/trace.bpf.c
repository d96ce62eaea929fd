/* What qd1 asks of the kernel about block requests and syncs: one event for each of them that is complete.
 *
 * Built by `cargo xtask bpf` with a pinned clang; the object is committed, so that nobody else needs a compiler. The
 * kernel's structures are declared as far as they are used; where their fields are is found when it is loaded (CO-RE).
 * No kprobes and no fentry, which machines forbid: tracepoints whose arguments the kernel describes (BTF), so that fields
 * are read without a call.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define uint(name, value) int(*name)[value]
#define type(name, value) value *name
#define always_inline inline __attribute__((always_inline))

enum { MAP_HASH = 1, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };
enum { ANY = 0, NO_EXIST = 1 };
/* The reader looks fifty times a second. */
enum { NO_WAKEUP = 1 };
enum { OP_FLUSH = 2 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u64 (*get_current_pid_tgid)(void) = (void *)14;
static long (*get_current_comm)(void *to, u32 size) = (void *)16;
static void *(*get_current_task)(void) = (void *)158; /* with its type */
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*get_current_cgroup_id)(void) = (void *)80;
static void *(*ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *data, u64 flags) = (void *)132;
static long (*ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk {
	int major;
	int first_minor;
};
struct request_queue {
	struct gendisk *disk;
};
struct bio;
struct request {
	struct request_queue *q;
	struct bio *bio;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
};
struct block_device {
	struct gendisk *bd_disk;
};
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
};
struct cgroup_subsys_state {
	int id;
};
struct blkcg {
	struct cgroup_subsys_state css;
};
struct blkcg_gq {
	struct blkcg *blkcg;
};
struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
};
/* Before 5.12 a bio knew its disk. */
struct bio___old {
	struct gendisk *bi_disk;
};
struct super_block {
	struct block_device *s_bdev;
};
struct inode {
	struct super_block *i_sb;
	u64 i_ino;
};
struct file {
	struct inode *f_inode;
	u32 f_flags;
};
struct fdtable {
	u32 max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct address_space {
	struct inode *host;
};
struct sched_info {
	u64 run_delay;
};
struct css_set {
	struct cgroup_subsys_state *subsys[1];
};
struct task_io_accounting {
	u64 write_bytes;
};
struct task_struct {
	u32 flags;
	struct task_io_accounting ioac;
	struct sched_info sched_info;
	struct files_struct *files;
	struct css_set *cgroups;
};
struct pt_regs___x86 {
	u64 di;
};
struct pt_regs___arm64 {
	u64 orig_x0;
};
/* Its value differs with how the kernel was built. */
enum cgroup_subsys_id { io_cgrp_id = 100 };
/* Before 5.17 a request knew its disk, and the queue did not. */
struct request___old {
	struct gendisk *rq_disk;
};
#pragma clang attribute pop

/* Whether the running kernel has the field. */
#define HAS(field) __builtin_preserve_field_info(field, 2)

/* Set before loading. */
const volatile u32 rq_is_second = 0; /* tracepoints of kernels before 5.11 have the queue first */
const volatile u32 device = 0;       /* major << 20 | minor of the disk; 0: all */
const volatile u32 with_syncs = 0;   /* whether the programs of syncs are attached */
/* Numbers of system calls: fsync, fdatasync, sync_file_range, then those that write. */
enum { SYNC_CALLS = 3, CALLS = 8 };
const volatile u32 calls[CALLS] = {};

/* Who asked. */
struct who {
	u64 cgroup;
	u32 pid;
	u32 tid;
	char comm[16];
};

/* A request on its way. */
struct on_its_way {
	u64 start_ns; /* when somebody asked for it; 0 where that was not seen */
	u64 issue_ns; /* when the device got it; 0 where it has not */
	u32 blkcg;
	u32 is_kernels; /* whether a thread of the kernel asked; known with syncs alone */
	struct who who;
};

/* What an event is of. */
enum { REQUEST = 0, REQUEST_WITH_START = 1, SYNC = 2, RELEASED = 3, DIRTIED = 4, KERNELS = 0x100 };

/* One that is complete: 88 bytes, in the byte order of the machine. */
struct event {
	u64 complete_ns;
	u64 queue_ns;  /* of a sync: how long its thread waited for a processor */
	u64 device_ns; /* of a sync: how long it took */
	u64 sector;    /* of a sync: the inode */
	u32 bytes;
	u32 device;
	u32 flags; /* of a sync: 1 for fdatasync */
	int error;
	u32 kind;
	u32 blkcg; /* the io control group (v1 or v2) that it counts for, by the kernel's id; 0 where that is not known */
	struct who who;
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 65536);
	type(key, u64);
	type(value, struct on_its_way);
} requests SEC(".maps");

/* The bio that a thread asked for last. Threads end without a word: the oldest make room. */
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

/* A sync that a thread waits for. */
struct sync {
	u64 start_ns;
	u64 run_delay_ns;
	u64 inode;
	u32 call;
	u32 device;
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 16384);
	type(key, u32);
	type(value, struct sync);
} syncs SEC(".maps");

/* What a thread changed in memory. The kernel's account of it follows the tracepoint, so that what it grows by until the next
 * one belongs to the disk of the one before. */
struct writer {
	u64 account;
	u64 bytes; /* of `device`, and not reported yet */
	u32 device;
	u32 last_device;
};
enum { BYTES_REPORTED = 1 << 20, FOLIO_BYTES_MAX = 2 << 20 };

struct {
	uint(type, MAP_LRU_HASH);
	uint(max_entries, 16384);
	type(key, u32);
	type(value, struct writer);
} writers SEC(".maps");

struct {
	uint(type, MAP_RINGBUF);
	uint(max_entries, 8388608);
} events SEC(".maps");

/* What was and was not recorded: 0 events for which the ring had no room, 1 requests whose issue or completion was not seen
 * or not kept, 2 completed requests, 3 other events for which the ring had no room. */
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

/* Reports what is no request: seldom enough to be copied. */
static always_inline void report(struct event *event)
{
	if (ringbuf_output(&events, event, sizeof(*event), NO_WAKEUP))
		count(LOST_OTHER);
}

static always_inline u32 number_of(struct gendisk *disk)
{
	if (!disk)
		return 0;
	return (u32)disk->major << 20 | ((u32)disk->first_minor & 0xfffff);
}

static always_inline u32 device_of(struct request *rq)
{
	return number_of(HAS(((struct request_queue *)0)->disk) ? rq->q->disk : ((struct request___old *)rq)->rq_disk);
}

static always_inline void ask_who(struct who *who)
{
	u64 both = get_current_pid_tgid();
	who->pid = both >> 32;
	who->tid = both;
	who->cgroup = get_current_cgroup_id();
	get_current_comm(who->comm, sizeof(who->comm));
}

enum { PF_WQ_WORKER = 0x20, PF_KTHREAD = 0x200000, ROOT = 1, OP_READ = 0, OP_MASK = 0xff, REQ_SYNC = 1 << 11 };

/* Threads that write back what programs changed ask for a control group too, but for writes that nobody waits for. */
static always_inline int is_waited_for(u32 flags)
{
	return (flags & OP_MASK) == OP_READ || flags & REQ_SYNC;
}

/* What is known of a request from before it was made: since when somebody waited for it (a free place in the queue, wbt),
 * for which control group, and whether its limit held it back. */
static always_inline void what_came_before(struct request *rq, struct on_its_way *it)
{
	u32 tid = it->who.tid;
	struct bio *bio = rq->bio;
	struct asked *asked = map_lookup(&askers, &tid);
	struct task_struct *task = get_current_task();
	it->is_kernels = !!(task->flags & PF_KTHREAD);
	if (!bio)
		return;
	if (HAS(((struct bio *)0)->bi_blkg) && bio->bi_blkg)
		it->blkcg = bio->bi_blkg->blkcg->css.id;
	u32 flags = rq->cmd_flags;
	if (!(task->flags & PF_WQ_WORKER) || it->blkcg <= ROOT || !is_waited_for(flags)) {
		if (asked && asked->bio == (u64)bio)
			it->start_ns = asked->at_ns;
		return;
	}
	/* A thread of the kernel asks for it, for a control group of its own: its limit held it back. */
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

/* Somebody asked: in the context of who did (from 6.5 on). */
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
	ask_who(&it.who);
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

static always_inline u32 device_of_bio(struct bio *bio)
{
	return number_of(HAS(((struct bio *)0)->bi_bdev) ? bio->bi_bdev->bd_disk : ((struct bio___old *)bio)->bi_disk);
}

/* A thread asks for it, behind the limits of control groups. */
SEC("tp_btf/block_bio_queue")
int bio_queued(u64 *context)
{
	struct bio *bio = (struct bio *)context[rq_is_second ? 1 : 0];
	u32 of = device_of_bio(bio);
	if (device && of != device)
		return 0;
	struct asked it = { .at_ns = ktime_get_ns(), .bio = (u64)bio };
	u32 tid = get_current_pid_tgid();
	map_update(&askers, &tid, &it, ANY);
	return 0;
}

static always_inline u64 run_delay_ns(void)
{
	struct task_struct *task = get_current_task();
	return task->sched_info.run_delay;
}

static always_inline u32 device_of_inode(struct inode *inode)
{
	struct block_device *bdev = inode->i_sb->s_bdev;
	return bdev ? number_of(bdev->bd_disk) : 0;
}

/* A part of a file is changed in memory, which somebody will write to the disk later: reported in steps of 1 MiB. */
SEC("tp_btf/writeback_dirty_folio")
int folio_dirtied(u64 *context)
{
	struct address_space *mapping = (struct address_space *)context[1];
	struct task_struct *task = get_current_task();
	if (!mapping || !mapping->host || !HAS(((struct task_struct *)0)->ioac.write_bytes))
		return 0;
	u32 of = device_of_inode(mapping->host), tid = get_current_pid_tgid();
	u64 account = task->ioac.write_bytes;
	struct writer *it = map_lookup(&writers, &tid);
	if (!it) {
		struct writer first = { .account = account, .device = of, .last_device = of };
		/* Most threads never write to a disk that is traced. */
		if (of && (!device || of == device))
			map_update(&writers, &tid, &first, ANY);
		return 0;
	}
	/* That of another thread, which had the number before, may be larger. */
	u64 grown = account > it->account ? account - it->account : 0;
	u32 last = it->last_device;
	it->account = account;
	it->last_device = of;
	/* Direct writes are in the account as well: no more than a folio has. */
	if (grown > FOLIO_BYTES_MAX)
		grown = FOLIO_BYTES_MAX;
	if (!last || (device && last != device))
		return 0;
	if (last != it->device) {
		it->device = last;
		it->bytes = 0;
	}
	it->bytes += grown;
	if (it->bytes < BYTES_REPORTED)
		return 0;
	struct event event = { .complete_ns = ktime_get_ns(), .bytes = it->bytes, .device = last, .kind = DIRTIED };
	it->bytes = 0;
	ask_who(&event.who);
	report(&event);
	return 0;
}

static always_inline u32 blkcg_of_task(void)
{
	struct task_struct *task = get_current_task();
	struct cgroup_subsys_state *css = 0;
	int id = 0;
	u64 at = __builtin_preserve_enum_value(*(enum cgroup_subsys_id *)io_cgrp_id, 1);
	if (!__builtin_preserve_enum_value(*(enum cgroup_subsys_id *)io_cgrp_id, 0))
		return 0;
	probe_read_kernel(&css, sizeof(css), (char *)&task->cgroups->subsys + at * sizeof(css));
	if (css)
		probe_read_kernel(&id, sizeof(id), &css->id);
	return id;
}

/* The file of this number of the calling thread. */
static always_inline struct file *file_of(u32 number)
{
	struct task_struct *task = get_current_task();
	struct fdtable *table = task->files->fdt;
	struct file *file = 0;
	if (number < table->max_fds)
		probe_read_kernel(&file, sizeof(file), &table->fd[number]);
	return file;
}

enum { O_DSYNC = 010000 };

/* A thread calls fsync or a sibling, or writes to a file that is synced after each write. */
SEC("tp_btf/sys_enter")
int call_begins(u64 *context)
{
	u32 call = context[1], which = CALLS;
#pragma unroll
	for (u32 at = 0; at < CALLS; at++)
		which = call == calls[at] ? at : which;
	if (which == CALLS)
		return 0;
	u32 number = HAS(((struct pt_regs___x86 *)0)->di) ? ((struct pt_regs___x86 *)context[0])->di :
							    ((struct pt_regs___arm64 *)context[0])->orig_x0;
	struct file *file = file_of(number);
	struct inode *inode = 0;
	struct super_block *sb = 0;
	struct block_device *bdev = 0;
	struct gendisk *disk = 0;
	struct sync it = { .call = which };
	u32 flags = 0, major = 0, minor = 0;
	if (!file)
		return 0;
	probe_read_kernel(&flags, sizeof(flags), &file->f_flags);
	if (which >= SYNC_CALLS && !(flags & O_DSYNC))
		return 0;
	probe_read_kernel(&inode, sizeof(inode), &file->f_inode);
	probe_read_kernel(&it.inode, sizeof(it.inode), &inode->i_ino);
	probe_read_kernel(&sb, sizeof(sb), &inode->i_sb);
	probe_read_kernel(&bdev, sizeof(bdev), &sb->s_bdev);
	if (bdev) {
		probe_read_kernel(&disk, sizeof(disk), &bdev->bd_disk);
		probe_read_kernel(&major, sizeof(major), &disk->major);
		probe_read_kernel(&minor, sizeof(minor), &disk->first_minor);
		it.device = major << 20 | (minor & 0xfffff);
	}
	if (device && it.device != device)
		return 0;
	u32 tid = get_current_pid_tgid();
	it.run_delay_ns = run_delay_ns();
	it.start_ns = ktime_get_ns();
	map_update(&syncs, &tid, &it, ANY);
	return 0;
}

SEC("tp_btf/sys_exit")
int call_ends(u64 *context)
{
	u32 tid = get_current_pid_tgid();
	struct sync *it = map_lookup(&syncs, &tid);
	if (!it)
		return 0;
	long result = context[1];
	u64 now = ktime_get_ns();
	struct event event = {
		.complete_ns = now,
		.queue_ns = run_delay_ns() - it->run_delay_ns,
		.device_ns = now - it->start_ns,
		.sector = it->inode,
		.bytes = it->call >= SYNC_CALLS && result > 0 ? result : 0,
		.device = it->device,
		.flags = it->call,
		.error = result < 0 ? result : 0,
		.kind = SYNC,
		.blkcg = blkcg_of_task(),
	};
	ask_who(&event.who);
	report(&event);
	map_delete(&syncs, &tid);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
