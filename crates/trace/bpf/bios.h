/* Disks without requests (zram, device mapper, md): their bios are counted as other disks' requests are. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct block_device_operations {
	void *submit_bio;
};
struct gendisk___more {
	const struct block_device_operations *fops;
};
struct bio___more {
	unsigned short bi_flags;
	void *bi_private;
};
#pragma clang attribute pop

/* The flag of a bio in flight, BIO_TRACE_COMPLETION: its enumeration has no name, so the reader looks it up. */
const volatile u32 in_flight_flag = 0;

/* The bios in flight on disks without requests. Some drivers complete bios unseen, so the oldest entries are evicted. */
struct {
	uint(type, MAP_LRU_HASH);
	uint(max_entries, 16384);
	type(key, u64);
	type(value, struct on_its_way);
} bios SEC(".maps");

/* Counts a bio that was not seen to the end, or for which the table had no room. */
static always_inline void count_unseen_bio(u32 disk, u32 flags)
{
	u32 place = place_of(disk), key = place * OPS + op_of(flags);
	struct latencies *of = place < DISKS_MAX ? map_lookup(&latencies, &key) : 0;
	if (of)
		of->unstamped += 1;
}

/* Whether a disk takes bios itself; if not, they become requests. */
static always_inline int takes_bios(struct gendisk *disk)
{
	return disk && ((struct gendisk___more *)disk)->fops->submit_bio;
}

/* A disk gets a bio. Those of disks with requests, which are most, cost nearly nothing. */
SEC("tp_btf/block_bio_queue")
int bio_begins(u64 *context)
{
	struct bio *bio = (struct bio *)subject(context, bio_is_second);
	struct gendisk *disk = disk_of_bio(bio);
	if (!takes_bios(disk))
		return 0;
	struct on_its_way it = { .rq = (u64)bio, .device = number_of(disk) };
	u64 key = it.rq;
	/* The previous bio in this memory was completed unseen. */
	struct on_its_way *before = map_lookup(&bios, &key);
	if (before) {
		count_unseen_bio(before->device, before->flags);
		map_delete(&bios, &key);
	}
	if (place_of(it.device) >= DISKS_MAX)
		return 0;
	it.bytes = bio->bi_iter.bi_size;
	it.flags = flags_of_bio(bio);
	if (with_waits)
		ask_who(&it.who);
	it.issue_ns = ktime_get_ns();
	if (map_update(&bios, &key, &it, ANY))
		count_unseen_bio(it.device, it.flags);
	return 0;
}

/* A disk serves a bio in parts, and counts each as a request of its own. The bio may be the whole one, or a part that
 * points to the rest, which began as the whole. */
SEC("tp_btf/block_split")
int bio_splits(u64 *context)
{
	struct bio *bio = (struct bio *)subject(context, bio_is_second);
	struct gendisk *disk = disk_of_bio(bio);
	if (!takes_bios(disk))
		return 0;
	u64 key = (u64)bio;
	struct on_its_way *it = map_lookup(&bios, &key);
	if (!it) {
		key = (u64)((struct bio___more *)bio)->bi_private;
		it = map_lookup(&bios, &key);
	}
	if (it && it->device == number_of(disk))
		__sync_fetch_and_add(&it->splits, 1);
	return 0;
}

/* A bio is completed. Few are reported that did not begin at a disk without requests. */
SEC("tp_btf/block_bio_complete")
int bio_ends(u64 *context)
{
	struct bio *bio = (struct bio *)context[1];
	u64 key = (u64)bio, now = ktime_get_ns();
	/* The disk at the beginning is what counts: some drivers pass on the bio itself, which then has another disk. */
	struct on_its_way *it = map_lookup(&bios, &key);
	if (!it)
		return 0;
	u32 op = op_of(it->flags), place = place_of(it->device), at = place * OPS + op;
	/* Nothing reports the end of a part, so that the time of each is that of the whole. */
	u32 count = it->splits + 1;
	struct latencies *of = place < DISKS_MAX ? map_lookup(&latencies, &at) : 0;
	if (of) {
		u64 ns = now > it->issue_ns ? now - it->issue_ns : 0;
		of->bytes += it->bytes;
		add(of->buckets[DEVICE], ns, count);
		add(of->buckets[TOTAL], ns, count);
		if (with_waits)
			count_process(it, op, it->bytes, count);
	}
	map_delete(&bios, &key);
	return 0;
}

/* Called by the reader for a bio that has been in flight since a given time. Returns 1 if it still is, and forgets it
 * otherwise: drivers that pass on the bio itself may complete it unseen. */
SEC("raw_tp/check_bio")
int check_bio(u64 *context)
{
	u64 key = context[0];
	struct on_its_way *it = map_lookup(&bios, &key);
	unsigned short flags = 0;
	/* Another bio may have its memory by now. */
	if (!it || it->issue_ns != context[1])
		return 0;
	probe_read_kernel(&flags, sizeof(flags), &((struct bio___more *)key)->bi_flags);
	if (!in_flight_flag || flags & in_flight_flag)
		return 1;
	count_unseen_bio(it->device, it->flags);
	map_delete(&bios, &key);
	return 0;
}
