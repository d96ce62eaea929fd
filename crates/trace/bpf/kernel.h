/* Shared by the programs: the kernel's structures, with only the fields in use (offsets are resolved when the object is
 * loaded, CO-RE), BPF helper functions, who issued something, and which system calls are syncs.
 *
 * No kprobes and no fentry, which some machines forbid: only tracepoints whose arguments the kernel describes (BTF), so
 * that fields are read without a helper call.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define uint(name, value) int(*name)[value]
#define type(name, value) value *name
#define barrier() __asm__ volatile("" ::: "memory")
#define keep_in_register(variable) __asm__ volatile("" : "+r"(variable))
#define always_inline inline __attribute__((always_inline))

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };
enum { ANY = 0, NO_EXIST = 1 };
/* The reader polls, so do not wake it up. */
enum { NO_WAKEUP = 1 };
enum { OP_FLUSH = 2, OP_MASK = 0xff };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u64 (*get_current_pid_tgid)(void) = (void *)14;
static long (*get_current_comm)(void *to, u32 size) = (void *)16;
static u64 (*get_current_task)(void) = (void *)35;
static void *(*get_current_task_btf)(void) = (void *)158; /* from 5.11 on */
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
	u8 bi_status;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
};
/* Before 5.12, a bio pointed to its disk. */
struct bio___old {
	struct gendisk *bi_disk;
};
struct super_block {
	struct block_device *s_bdev;
};
struct inode {
	unsigned short i_mode;
	u32 i_rdev;
	struct super_block *i_sb;
	u64 i_ino;
};
struct address_space {
	struct inode *host;
};
/* The inode of a block device is a part of this. */
struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
};
struct file {
	struct inode *f_inode;
	struct address_space *f_mapping;
	u32 f_flags;
};
struct fdtable {
	u32 max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
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
	struct task_struct *group_leader;
	char comm[16];
};
struct pt_regs___x86 {
	u64 r9;
	u64 dx;
	u64 di;
	u16 cs;
};
struct pt_regs___arm64 {
	u64 regs[31];
	u64 pstate;
	u64 orig_x0;
};
/* The value depends on the kernel's configuration. */
enum cgroup_subsys_id { io_cgrp_id = 100 };
struct io_rsrc_node {
	u64 file_ptr;
};
struct io_rsrc_data {
	u32 nr;
	struct io_rsrc_node **nodes;
};
struct io_file_table {
	struct io_rsrc_data data;
};
struct io_submit_link {
	struct io_kiocb *head;
	struct io_kiocb *last;
};
struct io_submit_state {
	struct io_submit_link link;
};
struct io_ring_ctx {
	struct io_submit_state submit_state;
	struct io_file_table file_table;
};
/* Before 6.13, registered files were an array of these. */
struct io_fixed_file {
	u64 file_ptr;
};
struct io_file_table___old {
	struct io_fixed_file *files;
};
struct io_ring_ctx___old {
	struct io_file_table___old file_table;
	u32 nr_user_files;
};
struct io_cqe {
	int res;
	int fd; /* until the request is issued */
};
struct io_kiocb {
	u8 opcode;
	u64 flags;
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
	struct io_kiocb *link;
};
struct io_rw {
	u32 flags;
};
struct io_sync {
	int flags;
};
/* Before 5.17, the request pointed to its disk, and the queue did not. */
struct request___old {
	struct gendisk *rq_disk;
};
#pragma clang attribute pop

/* Whether the running kernel has the field. */
#define HAS(field) __builtin_preserve_field_info(field, 2)

/* Set before loading. */
/* Before 5.11, the queue was the first argument of these tracepoints, except where that was backported. */
const volatile u32 rq_is_second = 0;
const volatile u32 bio_is_second = 0;
const volatile u32 task_has_btf = 1; /* from 5.11 on */
const volatile u32 device = 0;       /* major << 20 | minor of the disk; 0: all */
/* Calls by number: `CALLS` of src/program.rs. Those before SYNC_CALLS sync; then come those that write, the last of them with
 * flags, and those that read. DIRECT is added if the call is reported because it bypasses the page cache. */
enum { FSYNC = 0, FDATASYNC = 1, SYNC_FILE_RANGE = 2, MSYNC = 4, SYNC_ALL = 5, SYNC_CALLS = 6, PWRITEV2 = 10, READ_CALLS = 11,
       CALLS = 16, DIRECT = 0x100 };
/* For each system call its number in that list and one; 0 for the others. */
enum { SYSTEM_CALLS = 512 };
const volatile u8 calls[SYSTEM_CALLS] = {};
/* Whether calls that bypass the page cache are reported, too. */
const volatile u32 with_direct = 0;

/* The thread that issued a request or called a sync. */
struct who {
	u64 cgroup;
	u32 pid;
	u32 tid;
	char comm[16];
};

/* The request or bio that a tracepoint is about. The verifier accepts only fixed offsets, so each load has its own branch. */
static always_inline u64 subject(u64 *context, u32 is_second)
{
	u64 it;
	if (is_second) {
		it = context[1];
		keep_in_register(it);
	} else {
		it = context[0];
	}
	return it;
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

static always_inline struct gendisk *disk_of_bio(struct bio *bio)
{
	return HAS(((struct bio *)0)->bi_bdev) ? bio->bi_bdev->bd_disk : ((struct bio___old *)bio)->bi_disk;
}

enum { REQ_PREFLUSH = 1 << 18 };

/* The operation and flags of a bio: an empty one with this flag is a flush. */
static always_inline u32 flags_of_bio(struct bio *bio)
{
	u32 flags = bio->bi_opf;
	return !bio->bi_iter.bi_size && flags & REQ_PREFLUSH ? (flags & ~OP_MASK) | OP_FLUSH : flags;
}

static always_inline void ask_who(struct who *who)
{
	u64 both = get_current_pid_tgid();
	who->pid = both >> 32;
	who->tid = both;
	who->cgroup = get_current_cgroup_id();
	get_current_comm(who->comm, sizeof(who->comm));
}

/* A sync in progress. */
struct sync {
	u64 start_ns;
	u64 run_delay_ns;
	u64 inode;
	u32 call;
	u32 device; /* 0 if the call is not of one disk, or it is not known which */
	u32 blkcg;  /* the thread's I/O control group (v1 or v2), by the kernel's id; 0 if not known */
	u32 is_of_ring;
	struct who who;
};

/* By thread. */
struct {
	uint(type, MAP_HASH);
	uint(max_entries, 16384);
	type(key, u32);
	type(value, struct sync);
} syncs SEC(".maps");

/* Those of io_uring, by request. */
struct {
	uint(type, MAP_HASH);
	uint(max_entries, 16384);
	type(key, u64);
	type(value, struct sync);
} ring_syncs SEC(".maps");

/* Reads a field of the current thread: directly if the verifier knows the thread's type, else by a helper function. */
#define read_current(to, field) \
	do { \
		if (task_has_btf) { \
			struct task_struct *task = get_current_task_btf(); \
			(to) = task->field; \
		} else { \
			struct task_struct *task = (struct task_struct *)get_current_task(); \
			probe_read_kernel(&(to), sizeof(to), &task->field); \
		} \
	} while (0)

enum { PF_IO_WORKER = 0x10, PF_WQ_WORKER = 0x20, PF_KTHREAD = 0x200000 };

static always_inline u64 run_delay_ns(void)
{
	u64 ns = 0;
	read_current(ns, sched_info.run_delay);
	return ns;
}

/* The calling thread's open file with this descriptor. */
static always_inline struct file *file_of(u32 number)
{
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	struct file *file = 0, **files_of_table = 0;
	u32 max = 0;
	read_current(files, files);
	if (task_has_btf) {
		table = files->fdt;
		max = table->max_fds;
		files_of_table = table->fd;
	} else {
		probe_read_kernel(&table, sizeof(table), &files->fdt);
		probe_read_kernel(&max, sizeof(max), &table->max_fds);
		probe_read_kernel(&files_of_table, sizeof(files_of_table), &table->fd);
	}
	if (number < max)
		probe_read_kernel(&file, sizeof(file), &files_of_table[number]);
	return file;
}

static always_inline u32 blkcg_of_task(void)
{
	struct css_set *cgroups = 0;
	struct cgroup_subsys_state *css = 0;
	int id = 0;
	u64 at = __builtin_preserve_enum_value(*(enum cgroup_subsys_id *)io_cgrp_id, 1);
	if (!__builtin_preserve_enum_value(*(enum cgroup_subsys_id *)io_cgrp_id, 0))
		return 0;
	read_current(cgroups, cgroups);
	probe_read_kernel(&css, sizeof(css), (char *)&cgroups->subsys + at * sizeof(css));
	if (css)
		probe_read_kernel(&id, sizeof(id), &css->id);
	return id;
}

enum { O_DSYNC = 010000, O_DIRECT_X86 = 040000, O_DIRECT_ARM64 = 0200000 };
enum { RWF_DSYNC = 2, RWF_SYNC = 4, MS_SYNC = 4, S_IFMT = 0170000, S_IFBLK = 0060000, S_IFREG = 0100000 };

static always_inline int is_x86(void)
{
	return HAS(((struct pt_regs___x86 *)0)->di);
}

static always_inline u32 number_of_untrusted(struct block_device *bdev)
{
	struct gendisk *disk = 0;
	u32 major = 0, minor = 0;
	probe_read_kernel(&disk, sizeof(disk), &bdev->bd_disk);
	if (!disk)
		return 0;
	probe_read_kernel(&major, sizeof(major), &disk->major);
	probe_read_kernel(&minor, sizeof(minor), &disk->first_minor);
	return major << 20 | (minor & 0xfffff);
}

/* Completes `it` with the file that it is about. Returns 0 if the call is not to be reported: a read or write that is neither
 * durable nor direct, or a call on another disk. */
static always_inline int is_wanted(struct sync *it, struct file *file, u32 flags_of_write)
{
	struct inode *inode = 0, *of_device = 0;
	struct address_space *mapping = 0;
	struct super_block *sb = 0;
	struct block_device *bdev = 0;
	u32 flags = 0;
	unsigned short mode = 0;
	if (!file)
		return 0;
	probe_read_kernel(&flags, sizeof(flags), &file->f_flags);
	if (it->call >= SYNC_CALLS) {
		int is_write = it->call < READ_CALLS;
		int is_durable = is_write && (flags & O_DSYNC || flags_of_write & (RWF_DSYNC | RWF_SYNC));
		int is_direct = with_direct && flags & (is_x86() ? O_DIRECT_X86 : O_DIRECT_ARM64);
		if (!is_durable && !is_direct)
			return 0;
		if (is_direct)
			it->call |= DIRECT;
	}
	probe_read_kernel(&inode, sizeof(inode), &file->f_inode);
	probe_read_kernel(&it->inode, sizeof(it->inode), &inode->i_ino);
	probe_read_kernel(&mode, sizeof(mode), &inode->i_mode);
	mode &= S_IFMT;
	/* Pipes and terminals may be opened with these flags, too. */
	if (it->call >= SYNC_CALLS && mode != S_IFREG && mode != S_IFBLK)
		return 0;
	if (mode == S_IFBLK) {
		/* A block device is used directly: its inode belongs to no filesystem. */
		probe_read_kernel(&mapping, sizeof(mapping), &file->f_mapping);
		probe_read_kernel(&of_device, sizeof(of_device), &mapping->host);
		bdev = (struct block_device *)((char *)of_device -
					       __builtin_preserve_field_info(((struct bdev_inode *)0)->vfs_inode, 0));
		bdev = of_device ? bdev : 0;
	} else {
		probe_read_kernel(&sb, sizeof(sb), &inode->i_sb);
		probe_read_kernel(&bdev, sizeof(bdev), &sb->s_bdev);
	}
	if (bdev)
		it->device = number_of_untrusted(bdev);
	return !device || it->device == device;
}

static always_inline void stamp(struct sync *it)
{
	ask_who(&it->who);
	it->blkcg = blkcg_of_task();
	it->run_delay_ns = run_delay_ns();
	it->start_ns = ktime_get_ns();
}

enum { CS_32_BIT_X86 = 0x23, PSTATE_32_BIT_ARM64 = 0x10 };

/* Programs of 32 bits number their calls differently. */
static always_inline int is_of_32_bits(struct pt_regs___x86 *x86, struct pt_regs___arm64 *arm64)
{
	u16 cs = 0;
	if (!is_x86())
		return !!(arm64->pstate & PSTATE_32_BIT_ARM64);
	probe_read_kernel(&cs, sizeof(cs), &x86->cs);
	return cs == CS_32_BIT_X86;
}

/* Remembers that a thread calls fsync or similar, writes durably, or reads or writes directly. */
SEC("tp_btf/sys_enter")
int call_begins(u64 *context)
{
	u32 call = context[1];
	if (call >= SYSTEM_CALLS || !calls[call])
		return 0;
	struct sync it = { .call = calls[call] - 1 };
	struct pt_regs___x86 *x86 = (struct pt_regs___x86 *)context[0];
	struct pt_regs___arm64 *arm64 = (struct pt_regs___arm64 *)context[0];
	if ((it.call >= READ_CALLS && !with_direct) || is_of_32_bits(x86, arm64))
		return 0;
	u64 first = is_x86() ? x86->di : arm64->orig_x0;
	u32 flags = 0;
	if (it.call == MSYNC) {
		/* The reader finds out which file is mapped there. */
		it.inode = first;
		if (!((is_x86() ? x86->dx : arm64->regs[2]) & MS_SYNC))
			return 0;
	} else if (it.call != SYNC_ALL) {
		if (it.call == PWRITEV2)
			flags = is_x86() ? x86->r9 : arm64->regs[5];
		if (!is_wanted(&it, file_of(first), flags))
			return 0;
	}
	stamp(&it);
	u32 tid = it.who.tid;
	map_update(&syncs, &tid, &it, ANY);
	return 0;
}

/* What a program does with a call that has ended. */
static always_inline void call_ended(struct sync *it, long result);

SEC("tp_btf/sys_exit")
int call_ends(u64 *context)
{
	u32 tid = get_current_pid_tgid();
	struct sync *it = map_lookup(&syncs, &tid);
	if (!it)
		return 0;
	call_ended(it, context[1]);
	map_delete(&syncs, &tid);
	return 0;
}

/* Operations of io_uring (linux/io_uring.h) and flags of its requests. */
enum { RING_READV = 1, RING_WRITEV = 2, RING_FSYNC = 3, RING_READ_FIXED = 4, RING_WRITE_FIXED = 5,
       RING_SYNC_FILE_RANGE = 8, RING_READ = 22, RING_WRITE = 23 };
enum { RING_FSYNC_DATASYNC = 1, HAS_REGISTERED_FILE = 1, SKIPS_COMPLETION = 1 << 6 };
#define FILE_POINTER (~7ull)

static always_inline u32 call_of_ring(u8 opcode)
{
	switch (opcode) {
	case RING_FSYNC:
		return FSYNC;
	case RING_SYNC_FILE_RANGE:
		return SYNC_FILE_RANGE;
	case RING_WRITE:
	case RING_WRITE_FIXED:
	case RING_WRITEV:
		return SYNC_CALLS;
	case RING_READ:
	case RING_READ_FIXED:
	case RING_READV:
		return READ_CALLS;
	default:
		return CALLS;
	}
}

/* The file of a request that is being submitted. */
static always_inline struct file *file_of_ring(struct io_kiocb *rq, u32 flags)
{
	u32 number = rq->cqe.fd;
	u64 pointer = 0;
	if (!(flags & HAS_REGISTERED_FILE))
		return file_of(number);
	if (HAS(((struct io_file_table *)0)->data)) {
		struct io_rsrc_data *data = &rq->ctx->file_table.data;
		struct io_rsrc_node **nodes = data->nodes, *node = 0;
		if (number < data->nr)
			probe_read_kernel(&node, sizeof(node), &nodes[number]);
		if (node)
			probe_read_kernel(&pointer, sizeof(pointer), &node->file_ptr);
	} else {
		struct io_ring_ctx___old *ring = (struct io_ring_ctx___old *)rq->ctx;
		struct io_fixed_file *files = ring->file_table.files;
		if (number < ring->nr_user_files)
			probe_read_kernel(&pointer, sizeof(pointer), &files[number].file_ptr);
	}
	return (struct file *)(pointer & FILE_POINTER);
}

/* A thread, or the kernel's thread for the ring, submits a request to io_uring (from 6.0 on). */
SEC("tp_btf/io_uring_submit_req")
int ring_begins(u64 *context)
{
	struct io_kiocb *rq = (struct io_kiocb *)context[0];
	struct sync it = { .call = call_of_ring(rq->opcode), .is_of_ring = 1 };
	u64 key = (u64)rq;
	/* The end of the previous request in this memory may not have been reported. */
	map_delete(&ring_syncs, &key);
	if (it.call == CALLS || (it.call >= READ_CALLS && !with_direct))
		return 0;
	u32 of_task = 0, flags = 0, flags_of_write = 0;
	/* As wide as a word since 6.10; these flags are in the lower half. */
	probe_read_kernel(&flags, sizeof(flags), &rq->flags);
	/* Nothing would report its end. */
	if (flags & SKIPS_COMPLETION)
		return 0;
	if (it.call >= SYNC_CALLS)
		probe_read_kernel(&flags_of_write, sizeof(flags_of_write), &((struct io_rw *)rq)->flags);
	if (it.call == FSYNC) {
		u32 how = 0;
		probe_read_kernel(&how, sizeof(how), &((struct io_sync *)rq)->flags);
		if (how & RING_FSYNC_DATASYNC)
			it.call = FDATASYNC;
	}
	if (!is_wanted(&it, file_of_ring(rq, flags), flags_of_write))
		return 0;
	stamp(&it);
	read_current(of_task, flags);
	if (of_task & PF_IO_WORKER) {
		struct task_struct *leader = 0;
		read_current(leader, group_leader);
		probe_read_kernel(it.who.comm, sizeof(it.who.comm), &leader->comm);
	}
	/* Another thread will wait for a processor. */
	it.run_delay_ns = 0;
	/* In a chain, it begins when the one before it ends, if that end is reported. */
	if (rq->ctx->submit_state.link.head) {
		u32 flags_before = SKIPS_COMPLETION;
		struct io_kiocb *before = rq->ctx->submit_state.link.last;
		if (before)
			probe_read_kernel(&flags_before, sizeof(flags_before), &before->flags);
		if (!(flags_before & SKIPS_COMPLETION))
			it.start_ns = 0;
	}
	map_update(&ring_syncs, &key, &it, ANY);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int ring_ends(u64 *context)
{
	struct io_kiocb *rq = (struct io_kiocb *)context[1], *link = 0;
	struct sync *it, *next;
	u64 key = (u64)rq;
	int result = 0;
	if (!rq)
		return 0;
	probe_read_kernel(&link, sizeof(link), &rq->link);
	it = map_lookup(&ring_syncs, &key);
	if (it) {
		probe_read_kernel(&result, sizeof(result), &rq->cqe.res);
		if (it->start_ns)
			call_ended(it, result);
		map_delete(&ring_syncs, &key);
	}
	key = (u64)link;
	next = link ? map_lookup(&ring_syncs, &key) : 0;
	if (next)
		next->start_ns = ktime_get_ns();
	return 0;
}

/* What a thread changed in memory. The kernel updates its account after the tracepoint, so the growth until the next
 * event belongs to the disk of the previous event. */
struct writer {
	u64 account;
	u64 bytes; /* of `device`, not reported yet */
	u32 device;
	u32 last_device;
};
enum { FOLIO_BYTES_MAX = 2 << 20 };

struct {
	uint(type, MAP_LRU_HASH);
	uint(max_entries, 16384);
	type(key, u32);
	type(value, struct writer);
} writers SEC(".maps");

static always_inline u32 device_of_inode(struct inode *inode)
{
	struct block_device *bdev = inode->i_sb->s_bdev;
	return bdev ? number_of(bdev->bd_disk) : 0;
}

/* A part of a file is changed in memory, to be written to the disk later. Returns the bytes that this thread has
 * changed for `*disk` since the last report if they are at least `step`, and 0 otherwise. */
static always_inline u64 changed_in_memory(u64 *context, u32 *disk, u64 step)
{
	struct address_space *mapping = (struct address_space *)context[1];
	if (!mapping || !mapping->host || !HAS(((struct task_struct *)0)->ioac.write_bytes))
		return 0;
	u32 of = device_of_inode(mapping->host), tid = get_current_pid_tgid();
	u64 account = 0;
	read_current(account, ioac.write_bytes);
	struct writer *it = map_lookup(&writers, &tid);
	if (!it) {
		struct writer first = { .account = account, .device = of, .last_device = of };
		/* Most threads never write to a traced disk. */
		if (of && (!device || of == device))
			map_update(&writers, &tid, &first, ANY);
		return 0;
	}
	/* The account of an earlier thread with the same id may be larger. */
	u64 grown = account > it->account ? account - it->account : 0;
	u32 last = it->last_device;
	it->account = account;
	it->last_device = of;
	/* The account includes direct writes, so count at most the size of a folio. */
	if (grown > FOLIO_BYTES_MAX)
		grown = FOLIO_BYTES_MAX;
	if (!last || (device && last != device))
		return 0;
	if (last != it->device) {
		it->device = last;
		it->bytes = 0;
	}
	it->bytes += grown;
	if (it->bytes < step)
		return 0;
	u64 bytes = it->bytes;
	it->bytes = 0;
	*disk = last;
	return bytes;
}

char _license[] SEC("license") = "Dual MIT/GPL";
