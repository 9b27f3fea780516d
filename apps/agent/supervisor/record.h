// What is kept of a command, in a folder of its own: `head`, one page that supervisor and readers share, the rings `in`, `out`
// and `err`, and the pipe `bell` that calls the supervisor. A head is locked as long as its supervisor runs.
enum { KiB = 1024, MiB = 1024 * 1024 };
enum { IN = 0, OUT = 1, ERR = 2 };
enum { TTY = 1, HAS_INPUT = 2, KEEPS_AWAKE = 4, IS_WATCH = 8, WAITS_FOR_READER = 16, INPUT_GIVEN = 32, IS_SHORT = 64 };
enum { INPUT_ENDS = 1, INPUT_CLOSED = 2 };
enum { FIRST_BYTES = 64 * KiB, INPUT_BYTES = 256 * KiB, STREAM_BYTES = 16 * MiB, DESKTOP_BYTES = 256 * MiB, WATCH_BYTES = 1 * MiB };
/** The longest input that an operation gets with its request. */
enum { MOST_INPUT_BYTES = 2304 * KiB };
/** Of a short command the first bytes are kept, and of all of them together less. */
enum { SHORT_BYTES = 1 * MiB + 1, SHORT_DESKTOP_BYTES = 64 * MiB };
enum { MOST_KEPT = 1000, MOST_RUNNING = 256, MOST_WATCHES = 16, KEPT_SECS = 86400, GARBAGE_SECS = 3600, READER_SECS = 60 };
#define EXITED (1ul << 63)
#define TIMED_OUT (1ul << 62)
#define REMOVED (1ul << 61)

struct stream {
  /** Bytes before `start` were dropped. Offsets count from the first byte ever. */
  volatile u64 start, end;
  /** Up to here everything is on the disk. */
  volatile u64 durable;
  volatile u64 capacity;
  /** Raised with each change; who waits sleeps on it. */
  volatile u32 changes, waiting;
  volatile u32 flags;
  /** When it was read last, in seconds of the guest's own monotonic clock. */
  volatile u32 read_at;
};

struct head {
  char magic[8];
  char boot[40];
  volatile u64 created_at, ended_at;
  /** Zero until the command has ended. One word, so it is there whole or not at all. */
  volatile u64 exit;
  u64 timeout_secs;
  u32 flags;
  volatile u32 pid;
  struct stream streams[3];
  u32 title_bytes;
  char title[508];
  /** For each stream: a reader has requested what begins here, so it has what is before. */
  volatile u64 read_to[3];
  /** For each stream: the command waits until somebody reads. */
  volatile u32 held[3];
};

static const char magic[8] = "DORMEX1";
static const char *const files[] = {"in", "out", "err", "bell", "head"};

struct record {
  char folder[64];
  int fd;
  struct head *head;
  int data[3];
};

static char boot[40];
static void read_boot(void) {
  int fd = (int)sys_open("/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
  i64 n = sys_read(fd, boot, 36);
  boot[n > 0 ? n : 0] = 0;
  sys_close(fd);
}

static const char *path_in(const char *folder, const char *name) {
  static char path[128];
  u64 n = length(folder);
  memcpy(path, folder, n);
  path[n] = '/';
  memcpy(path + n + 1, name, length(name) + 1);
  return path;
}

static void remove_folder(const char *folder) {
  // The head goes last: without it the folder is garbage, which is removed later.
  for (int i = 0; i < 5; i++) sys_unlink(path_in(folder, files[i]));
  sys_rmdir(folder);
}

static int map_head(struct record *r) {
  r->fd = (int)sys_open(path_in(r->folder, "head"), O_RDWR | O_NOFOLLOW, 0);
  if (r->fd < 0) return 0;
  struct stat s;
  i64 at = sys_fstat(r->fd, &s) < 0 || s.size < 4096 ? -1 : sys_mmap(r->fd, 4096);
  r->head = (struct head *)at;
  int ok = at > 0;
  for (u64 i = 0; ok && i < sizeof magic; i++) ok = r->head->magic[i] == magic[i];
  if (!ok) sys_close(r->fd);
  return ok;
}
static int open_record(struct record *r, const char *id) {
  u64 n = length(id);
  if (n != 36) return 0;
  for (u64 i = 0; i < n; i++)
    if (!(id[i] == '-' || (id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f'))) return 0;
  memcpy(r->folder, id, n + 1);
  return map_head(r);
}
static void close_record(struct record *r) {
  if (r->head) call(11, r->head, 4096, 0, 0);
  sys_close(r->fd);
  for (int i = 0; i < 3; i++)
    if (r->data[i] > 0) sys_close(r->data[i]);
  memset(r, 0, sizeof *r);
  r->fd = -1;
}

static int is_locked(struct record *r) {
  if (sys_flock(r->fd, LOCK_SH | LOCK_NB) == -EAGAIN) return 1;
  sys_flock(r->fd, LOCK_UN);
  return 0;
}
enum state { RUNNING, HAS_EXITED, LOST };
static enum state state_of(struct record *r) {
  if (r->head->exit) return HAS_EXITED;
  if (same(r->head->boot, boot) && is_locked(r)) return RUNNING;
  if (r->head->exit) return HAS_EXITED;
  if (!r->head->ended_at) r->head->ended_at = seconds(0);
  return LOST;
}
/** What of a stream can be read. After a boot that is what had reached the disk, and was not overwritten since. */
static void range_of(struct record *r, int which, u64 *start, u64 *end) {
  struct stream *s = &r->head->streams[which];
  *end = s->end;
  __sync_synchronize();
  *start = s->start;
  if (r->head->exit || same(r->head->boot, boot)) return;
  u64 reach = s->durable + s->capacity / 4;
  *end = s->durable;
  *start = reach > s->capacity ? reach - s->capacity : 0;
  if (*start > *end) *start = *end;
}

/** One line: see `parseStatus` in the agent. */
static void say_status(struct record *r) {
  static const char *const names[] = {"running", "exited", "lost"};
  enum state state = state_of(r);
  struct head *h = r->head;
  u64 end = h->exit;
  say("exec ");
  say(r->folder);
  say_char(' ');
  say(names[state]);
  say_field(end & 255);
  say_field(end >> 8 & 255);
  say_char(' ');
  say(end & TIMED_OUT ? "timeout" : end & REMOVED ? "removed" : state != LOST ? "-" : same(h->boot, boot) ? "supervisor" : "boot");
  say_field(h->created_at);
  say_field(h->ended_at);
  say_field(h->flags);
  say_field(h->timeout_secs);
  for (int i = OUT; i <= ERR; i++) {
    u64 start, stop;
    range_of(r, i, &start, &stop);
    say_field(start);
    say_field(stop);
  }
  say_field(h->streams[IN].end);
  say_field(h->streams[IN].flags);
  say_char(' ');
  say_base64((const u8 *)h->title, h->title_bytes < sizeof h->title ? h->title_bytes : sizeof h->title);
  say("\n");
}

static u64 size_of(const char *path) {
  struct stat s;
  return sys_stat(path, &s) < 0 ? 0 : (u64)s.size;
}
static int reserve(int fd, u64 bytes) {
  i64 error = sys_fallocate(fd, bytes);
  if (error == -EOPNOTSUPP) error = sys_ftruncate(fd, bytes);
  return error >= 0;
}
