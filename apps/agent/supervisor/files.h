// Files of the guest: each is written beside its target under another name, and renamed once it is whole. What a boot of the guest
// cuts off is noted, and removed by a later one. Owner and mode may be given; an empty word is none.
enum { MOST_PATH = 4096, MOST_NAME = 255, PIECE_BYTES = 256 * KiB, SURE_BYTES = 1 * MiB, MOST_LINKS = 40, MOST_DEPTH = 1500 };
enum { SIG_ALARM = 14, SIG_FILE_SIZE = 25, OPEN_FILES = 7, HERE = -100, NO_FOLLOW = 0x100, NO_REPLACE = 1, FOLDER = 0x200 };

static u8 piece[PIECE_BYTES];

/** Two paths as one, behind the first of them; false if that is too long. */
static int join(char *path, u64 at, const char *more) {
  u64 n = length(more);
  if (at + n + 1 >= MOST_PATH) return 0;
  if (at && path[at - 1] != '/') path[at++] = '/';
  memcpy(path + at, more, n + 1);
  return 1;
}
static int is_folder(const char *path) {
  struct stat s;
  return sys_stat_followed(path, &s) == 0 && (s.mode & S_IFMT) == S_IFDIR;
}
static u64 write_all(int fd, const void *from, u64 n) {
  i64 failed = write_whole(fd, from, n);
  if (failed && fd == 1) leave(1);
  must(failed);
  return n;
}
static int read_all(int fd, void *to, u64 n) {
  return read_up_to(fd, to, n) == n;
}

/** Removes the entry and all that is below it, as far as it can. Returns the first error. */
static i64 remove_tree(int folder, const char *name, int depth) {
  i64 error = sys_unlinkat(folder, name, 0);
  if (error != -EISDIR) return error;
  struct listing l = {.fd = (int)sys_openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)};
  if (l.fd < 0) return l.fd;
  error = depth < MOST_DEPTH ? 0 : -ENAMETOOLONG;
  for (int removed = 1; removed && !error;) {
    removed = 0;
    l.bytes = l.at = sys_seek(l.fd, 0, 0);
    for (struct dirent *entry; depth < MOST_DEPTH && (entry = next_entry(&l)); removed = 1) {
      i64 failed = remove_tree(l.fd, entry->name, depth + 1);
      if (!error && failed != -ENOENT) error = failed;
    }
  }
  sys_close(l.fd);
  i64 last = sys_unlinkat(folder, name, FOLDER);
  return error ? error : last;
}

/** The path of an entry, also in two parts. */
struct place { char path[MOST_PATH], folder[MOST_PATH], name[MOST_NAME + 1]; };
static void split(struct place *p, const char *path) {
  u64 n = length(path), at = n;
  while (at && path[at - 1] != '/') at--;
  if (!at) refuse(-EINVAL);
  if (n - at > MOST_NAME || n >= MOST_PATH) refuse(-ENAMETOOLONG);
  memcpy(p->name, path + at, n - at + 1);
  u64 end = at > 1 ? at - 1 : 1;
  memcpy(p->path, path, n + 1);
  memcpy(p->folder, path, end);
  p->folder[end] = 0;
}
/** The same for what the path leads to, if it is a symbolic link: that is written, and the link stays. */
static void split_followed(struct place *p, const char *path) {
  char at[MOST_PATH], link[MOST_PATH];
  if (!join(at, 0, path)) refuse(-ENAMETOOLONG);
  for (int links = 0;; links++) {
    i64 n = sys_readlink(at, link, sizeof link - 1);
    if (n < 0) return split(p, at);
    if (links == MOST_LINKS) refuse(-ELOOP);
    link[n] = 0;
    u64 keep = link[0] == '/' ? 0 : length(at);
    while (keep && at[keep - 1] != '/') keep--;
    if (!join(at, keep, link)) refuse(-ENAMETOOLONG);
  }
}

struct owner { u32 uid, gid; int is_known, is_given; };

static int is_number(const char *text) {
  u64 n = 0;
  while (text[n] >= '0' && text[n] <= '9') n++;
  return n && n <= 10 && !text[n] && number(text) < ~0u;
}
/** Finds the line whose field has this text in a file such as /etc/passwd: the number in another of its fields. */
static int look_up(int fd, int field, const char *text, int wanted, u32 *found) {
  char word[MOST_NAME + 1], text_of[2][MOST_NAME + 1];
  u64 n = 0;
  int at = 0;
  for (i64 got = 1; got > 0;) {
    got = sys_read(fd, piece, PIECE_BYTES);
    for (i64 i = 0; i == 0 || i < got; i++) {
      char c = got > 0 ? (char)piece[i] : '\n';
      if (c != ':' && c != '\n') {
        if (n < MOST_NAME) word[n++] = c;
        continue;
      }
      word[n] = 0;
      if (at == field) memcpy(text_of[0], word, n + 1);
      if (at == wanted) memcpy(text_of[1], word, n + 1);
      n = 0;
      at++;
      if (c != '\n') continue;
      if (at > field && at > wanted && same(text_of[0], text) && is_number(text_of[1])) return *found = (u32)number(text_of[1]), 1;
      at = 0;
    }
  }
  return 0;
}
/** In the file, or by the image's `getent`, which knows users of a network too. */
static int in_database(const char *database, int field, const char *text, int wanted, u32 *found) {
  char path[32] = "/etc/";
  join(path, 5, database);
  int fd = (int)sys_open(path, O_RDONLY, 0), ends[2];
  int is_found = fd >= 0 && look_up(fd, field, text, wanted, found);
  if (fd >= 0) sys_close(fd);
  if (is_found || sys_pipe(ends, O_CLOEXEC) < 0) return is_found;
  i64 child = sys_fork();
  if (child == 0) {
    const char *argv[] = {"getent", "--", database, text, NULL}, *envp[] = {NULL};
    sys_dup2(ends[1], 1);
    sys_execve("/usr/bin/getent", argv, envp);
    sys_exit(1);
  }
  sys_close(ends[1]);
  is_found = child > 0 && look_up(ends[0], field, text, wanted, found);
  sys_close(ends[0]);
  if (child > 0) sys_wait4(child, NULL, 0);
  return is_found;
}
/** A user's name or number, perhaps with `:` and a group. */
static void set_owner(struct owner *o, const char *given) {
  char user[MOST_NAME + 1];
  u64 n = 0;
  while (given[n] && given[n] != ':') n++;
  if (n > MOST_NAME) fail("No such user");
  memcpy(user, given, n);
  user[n] = 0;
  const char *group = given[n] ? given + n + 1 : NULL;
  o->is_known = o->is_given = 1;
  if (is_number(user)) o->uid = (u32)number(user);
  else if (!in_database("passwd", 0, user, 2, &o->uid)) fail("No such user");
  if (!group) {
    if (!in_database("passwd", is_number(user) ? 2 : 0, user, 3, &o->gid)) o->gid = o->uid;
  } else if (is_number(group)) o->gid = (u32)number(group);
  else if (!in_database("group", 0, group, 2, &o->gid)) fail("No such user");
}
/** Some file systems have no owners: that matters only if one was given. */
static void give_to(const struct owner *o, i64 result) {
  if (o->is_given) must(result);
}

/** Opens the folder, after it was made with its parents if it was missing. Says to whom what is new belongs: by default to the owner
 *  of the folder that it is put in. */
static int open_folder(const char *folder, const char *given, struct owner *o) {
  char at[MOST_PATH];
  u64 n = length(folder), end = n;
  memcpy(at, folder, n + 1);
  struct stat s;
  i64 error;
  *o = (struct owner){0, 0, 0, 0};
  if (given[0]) set_owner(o, given);
  while ((error = sys_stat_followed(at, &s)) == -ENOENT && end > 1) {
    do end--;
    while (end > 1 && at[end] != '/');
    at[end] = 0;
  }
  must(error);
  if (!o->is_given) *o = (struct owner){s.uid, s.gid, 1, 0};
  while (end < n) {
    while (++end < n && folder[end] != '/');
    memcpy(at, folder, end);
    at[end] = 0;
    error = sys_mkdir(at, 0777);
    if (error < 0 && !(error == -EEXIST && is_folder(at))) refuse(error);
    if (error == 0) give_to(o, sys_lchown(at, o->uid, o->gid));
  }
  return (int)must(sys_open(folder, O_PATH | O_DIRECTORY, 0));
}

/** What is unfinished: its folder and its name there, and the note of it. The note is locked as long as this process runs. */
static struct { int folder; char name[64], note[128]; } unfinished;
static const char *const ledger = "/var/lib/dormouse/unfinished";

static void forget_unfinished(void) {
  undo = NULL;
  if (unfinished.note[0]) sys_unlink(unfinished.note);
}
static void remove_unfinished(void) {
  remove_tree(unfinished.folder, unfinished.name, 0);
  forget_unfinished();
}
/** Removes what an earlier boot has left, or a process of ours that was killed. The notes of scripts have a `-` and no lock. */
static void sweep(void) {
  struct listing l = {.fd = (int)sys_open(ledger, O_RDONLY | O_DIRECTORY, 0)};
  u64 n = length(boot);
  if (l.fd < 0 || !n) return;
  for (struct dirent *entry; (entry = next_entry(&l));) {
    int is_present = compare(boot, entry->name, 1) == 0;
    if (is_present && entry->name[n] == '-') continue;
    int fd = (int)sys_openat(l.fd, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    char path[MOST_PATH];
    i64 got = fd >= 0 && (!is_present || sys_flock(fd, LOCK_EX | LOCK_NB) == 0) ? sys_read(fd, path, sizeof path - 1) : -1;
    if (got > 0) {
      u64 name = (u64)got;
      path[got] = 0;
      while (name && path[name - 1] != '/') name--;
      if (path[0] == '/' && compare(".dormouse-", path + name, 1) == 0) remove_tree(HERE, path, 0);
    }
    if (got > 0 || (got == 0 && !is_present)) sys_unlinkat(l.fd, entry->name, 0);
    if (fd >= 0) sys_close(fd);
  }
  sys_close(l.fd);
}
/** Chooses a name in the folder, and notes it as far as the guest's disk allows. A failure of this process then removes it. */
static void begin_unfinished(int folder, const char *path) {
  static char text[MOST_PATH];
  u64 random[2], n = length(boot);
  must(sys_getrandom(random, sizeof random));
  char *name = unfinished.name;
  memcpy(name, ".dormouse-", 11);
  for (int i = 0; i < 24; i++) name[10 + i] = "0123456789abcdef"[random[i / 16] >> i % 16 * 4 & 15];
  name[34] = 0;
  unfinished.folder = folder;
  undo = remove_unfinished;
  sweep();
  sys_mkdir("/var/lib/dormouse", 0700);
  sys_mkdir(ledger, 0700);
  char *note = unfinished.note;
  join(note, 0, ledger);
  join(note, length(note), boot);
  n = length(note);
  note[n] = '+';
  memcpy(note + n + 1, name + 10, 25);
  int fd = (int)sys_open(note, O_WRONLY | O_CREAT | O_EXCL, 0600);
  u64 at = length(path);
  memcpy(text, path, at + 1);
  if (fd >= 0 && join(text, at, name) && sys_flock(fd, LOCK_EX) == 0) sys_write(fd, text, length(text));
}

/** What may be replaced by a file. */
static void must_take_file(const struct place *p) {
  struct stat s;
  if (sys_stat_followed(p->path, &s) < 0) return;
  if ((s.mode & S_IFMT) == S_IFDIR) refuse(-EISDIR);
  if ((s.mode & S_IFMT) != S_IFREG) fail("Not a regular file");
}
/** Creates a file that nobody but its owner reads until it is whole. In /proc, each new name is reported as missing. */
static int create_in(int folder, const char *name, const struct owner *o) {
  i64 fd = sys_openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat s;
  if (fd == -ENOENT && sys_statat(folder, ".", &s, 0) == 0 && s.nlink) refuse(-EPERM);
  must(fd);
  must(sys_fchmod(fd, 0600));
  give_to(o, sys_fchown(fd, o->uid, o->gid));
  return (int)fd;
}
/** Moves the file to its name in the same folder, with the given mode, or with the mode of the file that it replaces, and its owner
 *  unless another is given. Bits that lend a file's owner to who runs it stay only if they are requested: the contents are others. */
static void place_file(int folder, const char *from, const char *name, int fd, const char *mode, const char *owner) {
  struct stat old;
  u32 bits = 0644;
  i64 found = sys_statat(folder, name, &old, 0);
  if (found == 0 && (old.mode & S_IFMT) == S_IFDIR) refuse(-EISDIR);
  if (found == 0 && (old.mode & S_IFMT) == S_IFREG) {
    bits = old.mode & 0777;
    if (!owner[0]) sys_fchown(fd, old.uid, old.gid);
  }
  must(sys_fchmod(fd, mode[0] ? number(mode) : bits));
  must(sys_renameat(folder, from, folder, name, 0));
}

/** file.write PATH MODE OWNER: `ready`, then pieces of input, each behind its length. One without bytes puts the file in its place. */
static void write_file(char **args) {
  static struct place p;
  struct owner o;
  struct stat now, then;
  split_followed(&p, args[0]);
  must_take_file(&p);
  int folder = open_folder(p.folder, args[2], &o);
  begin_unfinished(folder, p.folder);
  int fd = create_in(folder, unfinished.name, &o);
  say("ready\n");
  flush();
  for (u64 size = 0;;) {
    u32 n;
    if (!read_all(0, &n, sizeof n)) fail("Cut off");
    if (n == 0) {
      // Some file systems tell only now that the disk is full.
      must(sys_close(must(sys_dup(fd))));
      must(sys_fstat(fd, &now));
      if (!now.nlink) fail("Gone meanwhile");
      must(sys_stat_followed(p.folder, &then));
      must(sys_fstat(folder, &now));
      if (now.ino != then.ino || now.dev != then.dev) fail("Gone meanwhile");
      place_file(folder, unfinished.name, p.name, fd, args[1], args[2]);
      forget_unfinished();
      say("placed");
      say_field(size);
      say("\n");
      return;
    }
    for (u32 part; n; n -= part) {
      part = n < PIECE_BYTES ? n : PIECE_BYTES;
      if (!read_all(0, piece, part)) fail("Cut off");
      size += write_all(fd, piece, part);
    }
  }
}

/** Opening anything else than a regular file could hang. */
static int open_to_read(const char *path, struct stat *s) {
  must(sys_stat_followed(path, s));
  if ((s->mode & S_IFMT) == S_IFDIR) refuse(-EISDIR);
  if ((s->mode & S_IFMT) != S_IFREG) fail("Not a regular file");
  int fd = (int)must(sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0));
  must(sys_fstat(fd, s));
  return fd;
}
/** file.read PATH: a line with the size and the version, which is another one if the file was changed. A short file follows at once,
 *  of a longer one the part for which a line of input gives offset and length. */
static void read_file(char **args) {
  struct stat s;
  int fd = open_to_read(args[0], &s);
  say_number((u64)s.size);
  say_field(s.ino);
  say_char('-');
  say_number((u64)s.size);
  say_char('-');
  say_number((u64)s.mtime);
  say_char('.');
  say_number((u64)s.mtime_ns);
  say("\n");
  flush();
  u64 left = ~0ul;
  if (s.size > SURE_BYTES) {
    char line[64];
    u64 n = 0, at = 0;
    while (n < sizeof line && read_all(0, line + n, 1) && line[n] != '\n') n++;
    if (n == sizeof line) fail("usage");
    line[n] = 0;
    while (line[at] && line[at] != ' ') at++;
    must(sys_seek(fd, number(line), 0));
    left = line[at] ? number(line + at + 1) : 0;
  }
  while (left) {
    i64 n = sys_read(fd, piece, left < PIECE_BYTES ? left : PIECE_BYTES);
    if (n == -EINTR) continue;
    if (must(n) == 0) return;
    left -= write_all(1, piece, (u64)n);
  }
}
