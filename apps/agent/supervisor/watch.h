// Watches a folder with inotify. It runs as a command that is supervised like every other, so what it prints is kept in a ring,
// and a reader goes on by offset. One line for each event; whatever it cannot follow any more ends it, with a line that says why.
enum { IN_MODIFY = 2, IN_ATTRIB = 4, IN_CLOSE_WRITE = 8, IN_MOVED_FROM = 0x40, IN_MOVED_TO = 0x80, IN_CREATE = 0x100 };
enum { IN_DELETE = 0x200, IN_DELETE_SELF = 0x400, IN_MOVE_SELF = 0x800, IN_UNMOUNT = 0x2000, IN_Q_OVERFLOW = 0x4000 };
enum { IN_IGNORED = 0x8000, IN_ONLYDIR = 0x1000000, IN_DONT_FOLLOW = 0x2000000, IN_EXCL_UNLINK = 0x4000000, IN_ISDIR = 0x40000000 };
enum { WATCHED = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK | IN_ONLYDIR };
enum { MOST_FOLDERS = 8192, PATH_BYTES = 8192, UNREAD_SECS = 600, LOOK_MS = 30000, PAIR_MS = 50, GATHER_MS = 10 };

struct event { int wd; u32 mask, cookie, bytes; char name[]; };
/** A watched folder. The first is the requested one; each other one is below another watched folder. */
struct node { int wd, parent, is_new; char name[256]; };

static struct node nodes[MOST_FOLDERS];
static int node_count, notify, is_deep;
static u64 device;
static const char *top;
/** What was moved away, until it is known where to. */
static struct { u32 cookie; int node, is_folder, is_there; char name[256]; } moved;

__attribute__((noreturn)) static void end_watch(const char *why) {
  say(why);
  say("\n");
  leave(0);
}

/** The path of an entry of a watched folder, or of the folder. */
static char *path_to(char *buffer, int node, const char *name) {
  char *at = buffer + PATH_BYTES;
  *--at = 0;
  for (;; name = nodes[node].name, node = nodes[node].parent) {
    u64 n = length(name);
    if ((u64)(at - buffer) < n + 1) end_watch("l");
    at -= n;
    memcpy(at, name, n);
    if (n) *--at = '/';
    if (!node) break;
  }
  u64 n = length(top);
  if (n == 1) return *at ? at : (char *)top;
  if ((u64)(at - buffer) < n) end_watch("l");
  at -= n;
  memcpy(at, top, n);
  return at;
}

static void say_path(int node, const char *name) {
  static char buffer[PATH_BYTES];
  char *path = path_to(buffer, node, name);
  say_char(' ');
  say_base64((const u8 *)path, length(path));
}
static void say_event(char what, int is_folder, int node, const char *name) {
  say_char(what);
  say(is_folder ? " d" : " f");
  say_path(node, name);
  say("\n");
}

static int node_of(int wd) {
  for (int i = 0; i < node_count; i++)
    if (nodes[i].wd == wd) return i;
  return -1;
}
static int child_of(int parent, const char *name) {
  for (int i = 1; i < node_count; i++)
    if (nodes[i].wd >= 0 && nodes[i].parent == parent && same(nodes[i].name, name)) return i;
  return -1;
}
static void place(int node, int parent, const char *name) {
  nodes[node].parent = parent;
  memcpy(nodes[node].name, name, length(name) + 1);
}

/** Watches a folder of a watched one. Nothing if it is no folder, or of another file system. */
static int add_folder(int parent, const char *name) {
  static char buffer[PATH_BYTES];
  struct stat s;
  if (!is_deep) return 0;
  char *path = path_to(buffer, parent, name);
  if (sys_stat(path, &s) < 0 || (s.mode & 0170000) != 0040000 || s.dev != device) return 0;
  i64 wd = sys_watch(notify, path, WATCHED | IN_DONT_FOLLOW);
  if (wd == -ENOSPC || wd == -ENOMEM) end_watch("l");
  if (wd < 0) return 0;
  int at = node_of((int)wd);
  if (at < 0) at = node_of(-1);
  if (at < 0) at = node_count++;
  if (at >= MOST_FOLDERS) end_watch("l");
  nodes[at].wd = (int)wd;
  nodes[at].is_new = 1;
  place(at, parent, name);
  return 1;
}

static void scan(int node, int reports) {
  static char buffer[PATH_BYTES];
  struct listing l = {.fd = (int)sys_open(path_to(buffer, node, ""), O_RDONLY | O_DIRECTORY | (node ? O_NOFOLLOW : 0), 0)};
  for (struct dirent *entry; (entry = next_entry(&l));) {
    int is_folder = (entry->type == 4 || !entry->type) && add_folder(node, entry->name);
    if (reports) say_event('c', is_folder || entry->type == 4, node, entry->name);
  }
  sys_close(l.fd);
}
/** Watches everything below the folders that are new. What appeared in them before they were watched is reported. */
static void scan_new(int reports) {
  for (int found = 1; found;) {
    found = 0;
    for (int i = 0; i < node_count; i++) {
      if (nodes[i].wd < 0 || !nodes[i].is_new) continue;
      nodes[i].is_new = 0;
      scan(i, reports);
      found = 1;
    }
  }
}
static void created(int is_folder, int node, const char *name) {
  say_event('c', is_folder, node, name);
  if (is_folder && add_folder(node, name)) scan_new(1);
}
/** A folder that has left, with everything below it. */
static void forget(int node) {
  sys_unwatch(notify, nodes[node].wd);
  nodes[node].wd = -1;
  for (int i = 1; i < node_count; i++)
    if (nodes[i].wd >= 0 && nodes[i].parent == node) forget(i);
}
static void moved_away(void) {
  if (!moved.is_there) return;
  moved.is_there = 0;
  say_event('d', moved.is_folder, moved.node, moved.name);
  int node = moved.is_folder ? child_of(moved.node, moved.name) : -1;
  if (node > 0) forget(node);
}

static void handle(struct event *e) {
  if (e->mask & IN_Q_OVERFLOW) end_watch("o");
  int is_pair = e->mask & IN_MOVED_TO && moved.is_there && e->cookie == moved.cookie;
  if (!is_pair) moved_away();
  int node = node_of(e->wd), is_folder = (e->mask & IN_ISDIR) != 0;
  if (node < 0) return;
  if (!node && e->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) end_watch("g");
  if (e->mask & IN_IGNORED) nodes[node].wd = -1;
  const char *name = e->bytes ? e->name : "";
  // What happens to a folder itself is also an event of the one that it is in.
  if (node && !*name) return;
  if (is_pair) {
    say("v");
    say(is_folder ? " d" : " f");
    say_path(moved.node, moved.name);
    int known = is_folder ? child_of(moved.node, moved.name) : -1;
    if (known > 0) place(known, node, name);
    say_path(node, name);
    say("\n");
    moved.is_there = 0;
    if (is_folder && known < 0 && add_folder(node, name)) scan_new(1);
  } else if (e->mask & IN_MOVED_FROM) {
    moved.cookie = e->cookie;
    moved.node = node;
    moved.is_folder = is_folder;
    moved.is_there = 1;
    memcpy(moved.name, name, length(name) + 1);
  } else if (e->mask & (IN_CREATE | IN_MOVED_TO)) created(is_folder, node, name);
  else if (e->mask & IN_DELETE) say_event('d', is_folder, node, name);
  else if (e->mask & IN_CLOSE_WRITE) say_event('w', is_folder, node, name);
  else if (e->mask & IN_MODIFY) say_event('m', is_folder, node, name);
  else if (e->mask & IN_ATTRIB) say_event('a', is_folder || !*name, node, name);
}

/** watch ID PATH DEEP: until nobody has read for long enough, by the time that the guest was awake. */
static void watch(struct record *r, char **args) {
  static u8 events[64 * KiB] __attribute__((aligned(8)));
  volatile u32 *read_at = &r->head->streams[OUT].read_at;
  struct stat s;
  *read_at = (u32)seconds(1);
  top = args[1];
  is_deep = args[2][0] == '1';
  notify = (int)sys_notify(O_NONBLOCK | O_CLOEXEC);
  i64 wd = notify < 0 ? notify : sys_watch(notify, top, WATCHED);
  if (wd >= 0 && sys_stat_followed(top, &s) < 0) wd = -ENOENT;
  if (wd < 0) {
    say("e");
    say_field((u64)-wd);
    end_watch("");
  }
  device = s.dev;
  nodes[0].wd = (int)wd;
  nodes[0].is_new = is_deep;
  node_count = 1;
  scan_new(0);
  say("r\n");
  for (;;) {
    flush();
    struct pollfd polled = {notify, POLLIN, 0};
    i64 ready = sys_poll(&polled, 1, moved.is_there ? PAIR_MS : LOOK_MS);
    if (ready == 0) moved_away();
    if ((u32)seconds(1) - *read_at > UNREAD_SECS) end_watch("i");
    i64 n = ready > 0 ? sys_read(notify, events, sizeof events) : 0;
    for (i64 at = 0; at < n;) {
      struct event *e = (struct event *)(events + at);
      at += (i64)sizeof *e + e->bytes;
      handle(e);
    }
    if (n > 0) sys_poll(NULL, 0, GATHER_MS);
  }
}
