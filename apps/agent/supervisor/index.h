// What is known of the records that have ended, so that a start does not open each of them again. Only a cache, for one boot: a
// record that is not in it is opened. Releases before it neither read nor write it. Used under the lock of the folder.
enum { SLOTS = 2048, MOST_USED = 1536 };

/** A hash table. A slot with an id has everything before its id. */
struct slot { char id[40]; u64 bytes, ended_at; };
struct index { char boot[40]; u64 used; struct slot slots[SLOTS]; };

/** NULL if there is none: then every record is opened. */
static struct index *ends;

static void open_index(void) {
  int fd = ends ? -1 : (int)sys_open("index", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  struct stat s;
  int ok = sys_fstat(fd, &s) >= 0 && ((u64)s.size >= sizeof *ends || reserve(fd, sizeof *ends));
  i64 at = ok ? sys_mmap(fd, sizeof *ends) : -1;
  sys_close(fd);
  if (at < 0) return;
  ends = (struct index *)at;
  if (same(ends->boot, boot)) return;
  memset(ends, 0, sizeof *ends);
  memcpy(ends->boot, boot, sizeof boot);
}

/** The slot of this id, or an empty one for it; NULL if none is left. */
static struct slot *slot_of(const char *id) {
  u32 hash = 2166136261u;
  for (const char *at = id; *at; at++) hash = (hash ^ (u8)*at) * 16777619u;
  for (u32 i = 0; ends && i < SLOTS; i++) {
    struct slot *slot = &ends->slots[(hash + i) % SLOTS];
    if (!slot->id[0] || same(slot->id, id)) return slot;
  }
  return NULL;
}
/** The slot of a record that has ended. NULL if that is not known. */
static struct slot *known_end(const char *id) {
  struct slot *slot = length(id) == 36 ? slot_of(id) : NULL;
  return slot && slot->id[0] ? slot : NULL;
}
static void note_end(const char *id, u64 bytes, u64 ended_at) {
  struct slot *slot = slot_of(id);
  if (!slot && ends) ends->used = SLOTS;
  if (!slot || slot->id[0]) return;
  slot->bytes = bytes;
  slot->ended_at = ended_at;
  __sync_synchronize();
  memcpy(slot->id, id, 37);
  ends->used++;
}
/** The slot stays taken, and matches no id. */
static void forget_end(const char *id) {
  struct slot *slot = slot_of(id);
  if (slot && slot->id[0]) slot->id[0] = '-';
}
/** After a survey: empties it if it is nearly full. The next survey opens each record once more. */
static void tidy_index(void) {
  if (ends && ends->used >= MOST_USED) memset(&ends->used, 0, sizeof *ends - sizeof ends->boot);
}
