// The rings. One process writes, any number read. The order of the writes is what makes a reader's bytes exact:
//
//  1. `start` moves past what is about to be overwritten
//  2. the bytes are written
//  3. `end` moves past them
//
// A reader copies, and then looks at `start` again. What lies before it may have been overwritten, so it counts as dropped.
// Before a quarter of the ring beyond `durable` is overwritten, everything is synced. So a power cut loses no more than that
// quarter, and what remains is known exactly.

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 };

static void changed(struct stream *s) {
  __sync_fetch_and_add(&s->changes, 1);
  if (s->waiting) sys_futex(&s->changes, FUTEX_WAKE, 1 << 30, 0);
}
/** Sleeps until the stream changes from `seen`, for at most this long. */
static void await_change(struct stream *s, u32 seen, u64 ms) {
  struct timespec most = {(i64)(ms / 1000), (i64)(ms % 1000) * 1000000};
  __sync_fetch_and_add(&s->waiting, 1);
  sys_futex(&s->changes, FUTEX_WAIT, seen, &most);
  __sync_fetch_and_sub(&s->waiting, 1);
}
/** The same until that time; false once it has come. A supervisor that dies wakes nobody, so it returns each second. */
static int await_until(struct stream *s, u32 seen, u64 until) {
  u64 now = milliseconds();
  if (now >= until) return 0;
  await_change(s, seen, until - now < 1000 ? until - now : 1000);
  return 1;
}

/** Reads or writes at an offset, around the ring's end. The number of bytes, which is short only after an error. */
static u64 around(int fd, struct stream *s, u64 offset, u8 *bytes, u64 n, int writes) {
  u64 done = 0;
  while (done < n) {
    u64 at = (offset + done) % s->capacity;
    u64 part = n - done < s->capacity - at ? n - done : s->capacity - at;
    i64 moved = writes ? sys_pwrite(fd, bytes + done, part, at) : sys_pread(fd, bytes + done, part, at);
    if (moved == -EINTR) continue;
    if (moved <= 0) break;
    done += (u64)moved;
  }
  return done;
}

/** Doubles a ring that has not wrapped. False at its limit, the desktop's, or the disk's. */
static int grow(int fd, struct stream *s) {
  if (s->capacity >= STREAM_BYTES) return 0;
  struct survey found;
  int lock = lock_all();
  int ok = make_space(s->capacity, 0, &found) && reserve(fd, s->capacity * 2);
  if (!ok) sys_ftruncate(fd, s->capacity);
  sys_close(lock);
  if (ok) s->capacity *= 2;
  return ok;
}

static void sync_stream(struct record *r, int which) {
  struct stream *s = &r->head->streams[which];
  if (s->durable == s->end) return;
  u64 end = s->end;
  sys_fdatasync(r->data[which]);
  s->durable = end;
  sys_msync(r->head, 4096);
}

/** Rings that cannot grow: at a limit, or the disk is full. */
static u8 is_full[3];

/**
 * True while the command has to wait for a reader of this stream: half of the ring has not been read, and the ring cannot grow.
 * The other half is for what a reader that lost its connection requests again. Without a reader for READER_SECS, nothing waits.
 */
static int waits_for_reader(struct head *h, int which) {
  struct stream *s = &h->streams[which];
  if (!(h->flags & WAITS_FOR_READER)) return 0;
  h->held[which] = 1;
  __sync_synchronize();
  int may_grow = !is_full[which] && s->end <= s->capacity && s->capacity < STREAM_BYTES;
  int waits = !may_grow && s->end - h->read_to[which] >= s->capacity / 2 && (u32)seconds(1) - s->read_at < READER_SECS;
  if (!waits) h->held[which] = 0;
  return waits;
}

/** How many bytes of a short command's stream there is space for. */
static u64 kept_of(struct stream *s) {
  return s->capacity < SHORT_BYTES ? s->capacity : SHORT_BYTES;
}

/** Appends bytes. What no longer fits is dropped from the beginning, and counted by `start`. */
static void append(struct record *r, int which, u8 *bytes, u64 n) {
  struct stream *s = &r->head->streams[which];
  int fd = r->data[which];
  while (n > 0) {
    if (s->end + n > s->capacity && s->end <= s->capacity && !is_full[which]) {
      int is_most = r->head->flags & IS_WATCH && s->capacity >= WATCH_BYTES;
      is_full[which] = is_most || !grow(fd, s);
      continue;
    }
    u64 part = n < s->capacity / 8 ? n : s->capacity / 8;
    if (r->head->flags & IS_SHORT) {
      // The first bytes are kept. The end goes on counting the others.
      u64 space = kept_of(s) > s->end ? kept_of(s) - s->end : 0;
      if (!space) {
        s->end += n;
        return;
      }
      if (part > space) part = space;
    }
    u64 end = s->end + part;
    if (end > s->capacity && end > s->durable + s->capacity / 4) sync_stream(r, which);
    if (end > s->capacity && end - s->capacity > s->start) s->start = end - s->capacity;
    __sync_synchronize();
    // A disk that fails takes the bytes with it, and they count as dropped.
    if (around(fd, s, s->end, bytes, part, 1) < part) s->start = end;
    __sync_synchronize();
    s->end = end;
    changed(s);
    bytes += part;
    n -= part;
  }
}
