// Entries of the file system: listed page by page, and changed. A page is sorted by the bytes of the paths, and needs the memory of
// one page, however large the tree is. Each change has a time limit, and says the entry as it is afterwards.
enum { MOST_ENTRIES = 1001, MOST_PAGE_BYTES = 500000, MOST_COPIED_LINKS = 4 * MiB, SEEK_DATA = 3, SEEK_HOLE = 4 };

__attribute__((noreturn)) static void late(void) {
  said_bytes = 0;
  fail("Timed out");
}
/** A line of numbers (mode, size, owner, group, milliseconds, bytes of the name, bytes of a link's target), the name and the target.
 *  Returns how many bytes of text that are; 0 if there is no such entry. */
static u64 say_entry(int folder, const char *path) {
  char target[MOST_PATH];
  struct stat s;
  // What is said is not broken off.
  sys_alarm(0);
  if (sys_statat(folder, path, &s, NO_FOLLOW) < 0) return 0;
  i64 n = (s.mode & S_IFMT) == S_IFLNK ? call(267, folder, path, target, sizeof target) : 0;
  if (n < 0) n = 0;
  say("entry");
  say_field(s.mode);
  say_field((u64)s.size);
  say_field(s.uid);
  say_field(s.gid);
  i64 time = (i64)((u64)s.mtime * 1000 + (u64)s.mtime_ns / 1000000);
  say(time < 0 ? " -" : " ");
  say_number((u64)(time < 0 ? -time : time));
  say_field(length(path));
  say_field((u64)n);
  say("\n");
  say_bytes((const u8 *)path, length(path));
  say_bytes((const u8 *)target, (u64)n);
  return length(path) + (u64)n;
}

/** The paths of the page in their order: the smallest behind `beyond`, and one more. */
static char kept_paths[MOST_ENTRIES][MOST_PATH];
static u16 in_order[MOST_ENTRIES];
static u32 kept_count, kept_most;
static char beyond[2 * MOST_PATH];

static const char *last_kept(void) {
  return kept_count && kept_count == kept_most ? kept_paths[in_order[kept_count - 1]] : NULL;
}
static void keep_path(const char *path) {
  const char *last = last_kept();
  if (compare(path, beyond, 0) <= 0 || (last && compare(path, last, 0) >= 0)) return;
  u32 low = 0, high = kept_count;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (compare(path, kept_paths[in_order[middle]], 0) < 0) high = middle;
    else low = middle + 1;
  }
  u16 slot = last ? in_order[kept_count - 1] : (u16)kept_count++;
  for (u32 i = kept_count - 1; i > low; i--) in_order[i] = in_order[i - 1];
  in_order[low] = slot;
  memcpy(kept_paths[slot], path, length(path) + 1);
}
/** Keeps what is below the open folder, whose path ends at `at`. A folder that no path of the page can be in is not opened. */
static void search(int fd, char *path, u64 at, u64 depth) {
  struct listing l = {.fd = fd};
  for (struct dirent *entry; (entry = next_entry(&l));) {
    struct stat s;
    if (!join(path, at, entry->name)) continue;
    keep_path(path);
    if (depth == 1 || (entry->type && entry->type != 4)) continue;
    u64 n = length(path);
    const char *last = last_kept();
    if (!join(path, n, "") || compare(path, beyond, 1) < 0 || (last && compare(path, last, 1) > 0)) continue;
    if (!entry->type && (sys_statat(fd, entry->name, &s, NO_FOLLOW) < 0 || (s.mode & S_IFMT) != S_IFDIR)) continue;
    int below = (int)sys_openat(fd, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (below < 0) continue;
    search(below, path, n + 1, depth - 1);
    sys_close(below);
  }
}
/** entry.list SECS PATH DEPTH LIMIT, and the last path of the page before as input: entries, then `more` or `end`. */
static void list_entries(char **args) {
  static char path[MOST_PATH];
  u64 depth = number(args[2]), limit = number(args[3]), bytes = 0;
  if (depth == 0) {
    if (!say_entry(HERE, args[1])) must(sys_statat(HERE, args[1], (struct stat *)piece, NO_FOLLOW));
    say("end\n");
    return;
  }
  if (limit == 0 || limit >= MOST_ENTRIES || depth > 32) fail("usage");
  beyond[read_given((u8 *)beyond, sizeof beyond - 1)] = 0;
  kept_most = (u32)limit + 1;
  int fd = (int)must(sys_open(args[1], O_RDONLY | O_DIRECTORY, 0));
  search(fd, path, 0, depth);
  u32 i = 0;
  for (; i < kept_count && i < limit && bytes < MOST_PAGE_BYTES; i++) bytes += say_entry(fd, kept_paths[in_order[i]]);
  say(i < kept_count ? "more\n" : "end\n");
}

/** The data of a file, without its holes. Files that the kernel makes have another size than they report. */
static void copy_data(int from, int to, i64 size) {
  must(sys_ftruncate(to, size));
  for (i64 at = 0, hole;; at = hole) {
    i64 data = sys_seek(from, at, SEEK_DATA);
    if (data == -ENXIO) return;
    hole = data < 0 ? -1 : sys_seek(from, data, SEEK_HOLE);
    if (data < 0) data = at;
    sys_seek(from, data, 0);
    sys_seek(to, data, 0);
    for (i64 n, by_kernel = 1; hole < 0 || data < hole; data += n) {
      u64 left = hole < 0 ? (u64)1 << 30 : (u64)(hole - data);
      n = by_kernel ? sys_copy_range(from, to, left) : -1;
      if (n <= 0) {
        by_kernel = 0;
        n = must(sys_read(from, piece, left < PIECE_BYTES ? left : PIECE_BYTES));
        write_all(to, piece, (u64)n);
      }
      if (n == 0) return;
    }
  }
}
/** Of each file with several names that was copied, its numbers and the path of the copy. */
static u8 copied_links[MOST_COPIED_LINKS] __attribute__((aligned(8)));
static u64 copied_bytes;
struct copied { u64 dev, ino, bytes; char path[]; };

/** Makes another name of a copy, if there is one. Otherwise notes the copy to come; if there is no space, it stays one by itself. */
static int link_copy(const struct stat *s, const char *to) {
  struct copied *c;
  for (u64 at = 0; at < copied_bytes; at += c->bytes) {
    c = (struct copied *)(copied_links + at);
    if (c->dev == s->dev && c->ino == s->ino) return sys_link(c->path, to) == 0;
  }
  u64 n = length(to) + 1, bytes = (sizeof *c + n + 7) & ~7ul;
  if (copied_bytes + bytes > MOST_COPIED_LINKS) return 0;
  c = (struct copied *)(copied_links + copied_bytes);
  *c = (struct copied){s->dev, s->ino, bytes};
  memcpy(c->path, to, n);
  copied_bytes += bytes;
  return 0;
}
/** Owner, mode, times and extended attributes, as far as the file system has them. */
static void copy_traits(const struct stat *s, const char *from, const char *to) {
  static char names[64 * KiB];
  sys_lchown(to, s->uid, s->gid);
  if ((s->mode & S_IFMT) != S_IFLNK) must(sys_chmod(to, s->mode & 07777));
  i64 n = sys_list_traits(from, names, sizeof names);
  for (i64 at = 0; at < n; at += (i64)length(names + at) + 1) {
    i64 bytes = sys_get_trait(from, names + at, piece, PIECE_BYTES);
    if (bytes >= 0) sys_set_trait(to, names + at, piece, bytes);
  }
  i64 times[] = {s->atime, s->atime_ns, s->mtime, s->mtime_ns};
  sys_set_times(to, times);
}
/** Copies the entry and all that is below it. Both paths are in buffers, and are the same afterwards. */
static void copy_tree(char *from, char *to, int depth) {
  static char target[MOST_PATH];
  struct stat s;
  if (depth == MOST_DEPTH) refuse(-ENAMETOOLONG);
  must(sys_stat(from, &s));
  u32 type = s.mode & S_IFMT;
  if (type == S_IFDIR) {
    struct listing l = {.fd = (int)must(sys_open(from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0))};
    u64 n = length(from), m = length(to);
    must(sys_mkdir(to, 0700));
    for (struct dirent *entry; (entry = next_entry(&l));) {
      if (!join(from, n, entry->name) || !join(to, m, entry->name)) refuse(-ENAMETOOLONG);
      copy_tree(from, to, depth + 1);
    }
    from[n] = to[m] = 0;
    must(l.bytes);
    sys_close(l.fd);
  } else if (s.nlink > 1 && link_copy(&s, to)) return;
  else if (type == S_IFLNK) {
    target[must(sys_readlink(from, target, sizeof target - 1))] = 0;
    must(sys_symlink(target, to));
  } else if (type == S_IFREG) {
    int in = (int)must(sys_open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)), out = (int)must(sys_open(to, O_WRONLY | O_CREAT | O_EXCL, 0600));
    copy_data(in, out, s.size);
    sys_close(in);
    must(sys_close(out));
  } else must(sys_mknod(to, s.mode, s.rdev));
  copy_traits(&s, from, to);
}
/** Copies the entry under another name in the folder, where nobody takes half of it for the whole. */
static void copy_beside(const char *path, int folder, const char *there) {
  static char from[MOST_PATH], to[MOST_PATH];
  begin_unfinished(folder, there);
  if (!join(from, 0, path) || !join(to, 0, there) || !join(to, length(to), unfinished.name)) refuse(-ENAMETOOLONG);
  copy_tree(from, to, 0);
}

static i64 move_to(int from, const char *name, int to, const char *name_there, int overwrites) {
  i64 error = sys_renameat(from, name, to, name_there, overwrites ? 0 : NO_REPLACE);
  struct stat s;
  if (error == -EINVAL && !overwrites && sys_statat(to, name_there, &s, NO_FOLLOW) == -ENOENT) error = sys_renameat(from, name, to, name_there, 0);
  if (error == -EEXIST && !overwrites) fail("Exists already");
  return error;
}
/** Whether the folder is this one, or is somewhere below it. */
static int is_inside(int folder, const struct stat *of) {
  struct stat s, above;
  for (int fd = folder;; fd = (int)must(sys_openat(fd, "..", O_PATH | O_DIRECTORY, 0))) {
    must(sys_fstat(fd, &s));
    if (s.dev == of->dev && s.ino == of->ino) return 1;
    must(sys_statat(fd, "..", &above, 0));
    if (s.dev == above.dev && s.ino == above.ino) return 0;
  }
}
/** entry.move|copy SECS PATH TO OVERWRITE RECURSIVE. A move to another file system is a copy. */
static void move_entry(char **args, const struct stat *s, int copies) {
  static struct place from, to;
  struct stat there;
  struct owner o;
  const char *path = args[1];
  int overwrites = same(args[3], "1"), is_dir = (s->mode & S_IFMT) == S_IFDIR;
  if (copies && is_dir && !same(args[4], "1")) refuse(-EISDIR);
  split(&from, path);
  split(&to, args[2]);
  int is_there = sys_stat(args[2], &there) == 0;
  if (is_there && (there.mode & S_IFMT) == S_IFDIR) refuse(-EISDIR);
  if (is_there && !overwrites) fail("Exists already");
  int folder = open_folder(to.folder, "", &o);
  if (is_dir && is_inside(folder, s)) fail("In itself");
  int folder_from = (int)must(sys_open(from.folder, O_PATH | O_DIRECTORY, 0));
  i64 error = copies ? -EXDEV : move_to(folder_from, from.name, folder, to.name, overwrites);
  if (error == -EXDEV) {
    copy_beside(path, folder, to.folder);
    error = move_to(folder, unfinished.name, folder, to.name, overwrites);
    if (!error) forget_unfinished();
    if (!error && !copies) error = remove_tree(folder_from, from.name, 0);
  }
  must(error);
  if (!say_entry(HERE, args[2])) refuse(-ENOENT);
}
static void make_folder(char **args) {
  static struct place p;
  struct stat s;
  struct owner o;
  const char *path = args[1];
  int is_there = sys_stat(path, &s) == 0, parents = same(args[2], "1");
  split(&p, path);
  if (!(parents && is_folder(path))) {
    if (is_there) fail("Exists already");
    if (!parents) must(sys_stat_followed(p.folder, &s));
    open_folder(p.folder, args[4], &o);
    i64 error = sys_mkdir(path, 0777);
    if (error == -EEXIST) fail("Exists already");
    must(error);
    give_to(&o, sys_lchown(path, o.uid, o.gid));
    if (args[3][0]) must(sys_chmod(path, number(args[3])));
  }
  if (!say_entry(HERE, path)) refuse(-ENOENT);
}
static void change_modes(int folder, const char *name, u64 mode, int depth) {
  if (depth == MOST_DEPTH) refuse(-ENAMETOOLONG);
  struct stat s;
  struct listing l = {.fd = (int)sys_openat(folder, name, O_RDONLY | O_DIRECTORY | (depth ? O_NOFOLLOW : 0), 0)};
  if (l.fd < 0 && l.fd != -ENOTDIR && l.fd != -ELOOP) refuse(l.fd);
  if (l.fd >= 0) {
    must(sys_fchmod(l.fd, mode));
    for (struct dirent *entry; (entry = next_entry(&l));)
      if (sys_statat(l.fd, entry->name, &s, NO_FOLLOW) == 0 && (s.mode & S_IFMT) != S_IFLNK) change_modes(l.fd, entry->name, mode, depth + 1);
    sys_close(l.fd);
  } else if (l.fd == -ENOTDIR) must(call(268, folder, name, mode, 0));
}
/** entry.OPERATION SECS PATH ... */
static int change_entry(const char *operation, u64 n, char **args) {
  struct stat s, top;
  u64 files[2];
  if (n < 2 || compare("entry.", operation, 1)) return 0;
  sys_umask(usual_mask);
  if (sys_limit(OPEN_FILES, NULL, files) == 0) {
    files[0] = files[1];
    sys_limit(OPEN_FILES, files, NULL);
  }
  on_signal(SIG_FILE_SIZE, IGNORED);
  u64 action[4] = {(u64)late, 0x04000000, (u64)late, 0};
  sys_sigaction(SIG_ALARM, action);
  sys_alarm(number(args[0]));
  operation += 6;
  if (same(operation, "list") && n == 4) return list_entries(args), 1;
  if (same(operation, "mkdir") && n == 5) return make_folder(args), 1;
  must(sys_stat(args[1], &s));
  if (same(operation, "move") && n == 4) move_entry(args, &s, 0);
  else if (same(operation, "copy") && n == 5) move_entry(args, &s, 1);
  else if (same(operation, "remove") && n == 3) {
    must(sys_stat("/", &top));
    if (s.dev == top.dev && s.ino == top.ino) refuse(-EBUSY);
    int is_dir = (s.mode & S_IFMT) == S_IFDIR;
    must(is_dir && !same(args[2], "1") ? sys_rmdir(args[1]) : remove_tree(HERE, args[1], 0));
    sys_alarm(0);
    say("removed\n");
  } else if (same(operation, "chmod") && n == 4) {
    if (same(args[2], "1")) change_modes(HERE, args[1], number(args[3]), 0);
    else must(sys_chmod(args[1], number(args[3])));
    say_entry(HERE, args[1]);
  } else return 0;
  return 1;
}
