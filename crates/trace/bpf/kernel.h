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
	u64 r9;
	u64 di;
};
struct pt_regs___arm64 {
	u64 regs[31];
	u64 orig_x0;
};
/* The value depends on the kernel's configuration. */
enum cgroup_subsys_id { io_cgrp_id = 100 };
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
/* Numbers of system calls: fsync, fdatasync, sync_file_range, syncfs, then those that write, the last with flags. */
enum { SYNC_CALLS = 4, PWRITEV2 = 8, CALLS = 9 };
const volatile u32 calls[CALLS] = {};

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
	u32 device;
	struct who who;
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 16384);
	type(key, u32);
	type(value, struct sync);
} syncs SEC(".maps");

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

enum { PF_WQ_WORKER = 0x20, PF_KTHREAD = 0x200000 };

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

enum { O_DSYNC = 010000, RWF_DSYNC = 2, RWF_SYNC = 4, S_IFMT = 0170000, S_IFBLK = 0060000, S_IFREG = 0100000 };

/* Remembers that a thread calls fsync or similar, or writes to a file that is synced after each write. */
SEC("tp_btf/sys_enter")
int call_begins(u64 *context)
{
	u32 call = context[1], which = CALLS;
#pragma unroll
	for (u32 at = 0; at < CALLS; at++)
		which = call == calls[at] ? at : which;
	if (which == CALLS)
		return 0;
	struct pt_regs___x86 *x86 = (struct pt_regs___x86 *)context[0];
	struct pt_regs___arm64 *arm64 = (struct pt_regs___arm64 *)context[0];
	int is_x86 = HAS(((struct pt_regs___x86 *)0)->di);
	u32 number = is_x86 ? x86->di : arm64->orig_x0, wanted = 0;
	if (which == PWRITEV2)
		wanted = is_x86 ? x86->r9 : arm64->regs[5];
	struct file *file = file_of(number);
	struct inode *inode = 0;
	struct super_block *sb = 0;
	struct block_device *bdev = 0;
	struct gendisk *disk = 0;
	struct sync it = { .call = which };
	u32 flags = 0, major = 0, minor = 0;
	unsigned short mode = 0;
	if (!file)
		return 0;
	probe_read_kernel(&flags, sizeof(flags), &file->f_flags);
	if (which >= SYNC_CALLS && !(flags & O_DSYNC) && !(wanted & (RWF_DSYNC | RWF_SYNC)))
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
	probe_read_kernel(&mode, sizeof(mode), &inode->i_mode);
	mode &= S_IFMT;
	/* Pipes and terminals may be opened with O_SYNC, too. */
	if (which >= SYNC_CALLS && mode != S_IFREG && mode != S_IFBLK)
		return 0;
	/* A block device is synced directly: its inode belongs to no filesystem. */
	if (mode == S_IFBLK)
		probe_read_kernel(&it.device, sizeof(it.device), &inode->i_rdev);
	if (device && it.device != device)
		return 0;
	ask_who(&it.who);
	u32 tid = it.who.tid;
	it.run_delay_ns = run_delay_ns();
	it.start_ns = ktime_get_ns();
	map_update(&syncs, &tid, &it, ANY);
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
