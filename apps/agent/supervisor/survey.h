// What a folder of records holds altogether, and the space that it may take.
struct survey {
  u64 bytes, kept, running;
  /** The record that ended first. */
  char oldest[64];
  u64 oldest_at;
};

static void count_end(struct survey *found, const char *id, u64 bytes, u64 ended_at) {
  found->kept++;
  found->bytes += bytes;
  if (found->oldest_at && ended_at >= found->oldest_at) return;
  found->oldest_at = ended_at;
  memcpy(found->oldest, id, length(id) + 1);
}
/** Adds a record to what was found. False if the folder is no record. */
static int count_in(struct survey *found, const char *id, u64 now, void (*each)(struct record *)) {
  struct slot *known = known_end(id);
  if (known && known->ended_at + KEPT_SECS >= now) {
    count_end(found, id, known->bytes, known->ended_at);
    return 1;
  }
  struct record r = {0};
  if (!open_record(&r, id)) return 0;
  enum state state = state_of(&r);
  u64 ended = r.head->ended_at, bytes = 0;
  if (state != RUNNING && ended + KEPT_SECS < now) remove_folder(id);
  else {
    for (int i = 0; i < 3; i++) bytes += size_of(path_in(id, files[i]));
    if (state != RUNNING) {
      count_end(found, id, bytes, ended);
      note_end(id, bytes, ended);
    } else {
      found->kept++;
      found->running++;
      found->bytes += bytes;
    }
    if (each) each(&r);
  }
  close_record(&r);
  return 1;
}
/** Counts what is kept in the present folder, and removes what has been kept for long enough; `each` gets every record that is
 *  not in the index. */
static void survey(struct survey *found, void (*each)(struct record *)) {
  struct listing l = {.fd = (int)sys_open(".", O_RDONLY | O_DIRECTORY, 0)};
  memset(found, 0, sizeof *found);
  u64 now = seconds(0);
  for (struct dirent *entry; (entry = next_entry(&l));) {
    struct stat s;
    if (entry->type != 4 || length(entry->name) >= sizeof found->oldest || count_in(found, entry->name, now, each)) continue;
    if (sys_stat(entry->name, &s) == 0 && (u64)s.mtime + GARBAGE_SECS < now) remove_folder(entry->name);
  }
  sys_close(l.fd);
  tidy_index();
}
/** Removes a record that has ended. A running one stays: the index had an earlier one with its id. */
static void remove_ended(const char *id) {
  struct record r = {0};
  int is_there = open_record(&r, id);
  if (is_there && state_of(&r) == RUNNING) forget_end(id);
  else remove_folder(id);
  if (is_there) close_record(&r);
}
/** What the records of a folder may take; those of short commands are in the memory. */
static u64 most_bytes = DESKTOP_BYTES;
/** Makes space for this many bytes, or one more record: what ended first is removed. Under the lock of the folder. */
static int make_space(u64 bytes, int records, struct survey *found) {
  for (;;) {
    survey(found, NULL);
    if (found->bytes + bytes <= most_bytes && (!records || found->kept < MOST_KEPT)) return 1;
    if (!found->oldest_at) return 0;
    remove_ended(found->oldest);
  }
}
static int lock_all(void) {
  int fd = (int)sys_open(".", O_RDONLY | O_DIRECTORY, 0);
  while (sys_flock(fd, LOCK_EX) == -EINTR);
  open_index();
  return fd;
}
