// A file that arrives in several parts. Its bytes gather in a file beside its target, whose name is made from the upload's id, so
// that no step has to remember another.
struct upload { struct place target; char name[64]; };

static void find_upload(struct upload *u, const char *path, const char *id) {
  split_followed(&u->target, path);
  if (length(id) != 36) fail("usage");
  memcpy(u->name, ".dormouse-upload-", 17);
  memcpy(u->name + 17, id, 37);
}
/** Its folder; below zero if that cannot be opened: there is nothing in it then. */
#define upload_folder(u) (int)sys_open((u)->target.folder, O_PATH | O_DIRECTORY, 0)
/** Says its size, or `none`. */
static int say_upload(int folder, const char *name, struct stat *s) {
  int is_there = sys_statat(folder, name, s, NO_FOLLOW) == 0 && (s->mode & S_IFMT) == S_IFREG;
  if (is_there) say_number((u64)s->size);
  say(is_there ? "\n" : "none\n");
  return is_there;
}

/** upload.append PATH ID OFFSET: its size. If that is the offset, the input follows. Bytes are written at their offset and not
 *  appended: if a writer of an earlier connection is still busy, both write the same bytes. */
static void append_upload(char **args) {
  static struct upload u;
  struct stat s;
  find_upload(&u, args[0], args[1]);
  int folder = upload_folder(&u);
  int is_next = say_upload(folder, u.name, &s) && (u64)s.size == number(args[2]);
  flush();
  if (!is_next) return;
  int fd = (int)must(sys_openat(folder, u.name, O_WRONLY | O_NOFOLLOW, 0));
  must(sys_seek(fd, s.size, 0));
  for (i64 n; (n = sys_read(0, piece, PIECE_BYTES)) > 0 || n == -EINTR;)
    if (n > 0) write_all(fd, piece, (u64)n);
  must(sys_close(fd));
}

/** upload.prepare|measure|drop PATH ID OWNER, upload.place PATH ID OWNER MODE SIZE: its size, or `none`; after a `place` behind `now`
 *  or `before`. A target of the right size, without a temporary file, is the result of an earlier call whose answer was lost. */
static int change_upload(const char *operation, u64 n, char **args) {
  static struct upload u;
  struct stat s, target;
  struct owner o;
  if (compare("upload.", operation, 1) || n != (same(operation, "upload.place") ? 5 : 3)) return 0;
  sys_umask(usual_mask);
  find_upload(&u, args[0], args[1]);
  const char *owner = args[2];
  if (same(operation, "upload.prepare")) {
    must_take_file(&u.target);
    unfinished.folder = open_folder(u.target.folder, owner, &o);
    memcpy(unfinished.name, u.name, sizeof u.name);
    undo = remove_unfinished;
    create_in(unfinished.folder, u.name, &o);
    undo = NULL;
    say_upload(unfinished.folder, u.name, &s);
    return 1;
  }
  int folder = upload_folder(&u);
  if (same(operation, "upload.drop")) {
    i64 error = folder < 0 ? 0 : sys_unlinkat(folder, u.name, 0);
    if (error != -ENOENT) must(error);
  } else if (same(operation, "upload.place")) {
    u64 size = number(args[4]);
    int fd = (int)sys_openat(folder, u.name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) {
      int is_placed = sys_statat(folder, u.target.name, &target, 0) == 0 && (target.mode & S_IFMT) == S_IFREG && (u64)target.size == size;
      if (is_placed) say("before\n");
    } else if (must(sys_fstat(fd, &s)) == 0 && (u64)s.size == size) {
      must_take_file(&u.target);
      place_file(folder, u.name, u.target.name, fd, args[3], owner);
      say("now\n");
    }
  } else if (!same(operation, "upload.measure")) return 0;
  say_upload(folder, u.name, &s);
  return 1;
}
